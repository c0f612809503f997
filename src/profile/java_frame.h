/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a Java frame's name and place say: class and method, and the package that its code belongs
 * to. Obfuscated names mean nothing without the package: every app has an a.a.
 */
#ifndef HEAPPROFD_PROFILE_JAVA_FRAME_H
#define HEAPPROFD_PROFILE_JAVA_FRAME_H

#include <stdbool.h>
#include <stddef.h>

struct java_text {
    const char *at;
    size_t length;
};

/*
 * Split "a.b.c.d" into method d of class a.b.c, with or without a type before and arguments after
 * it: "void a.b.c.d(int)". Return false if it is not a Java name.
 */
bool java_frame_split(const char *name, size_t length, struct java_text *class_name,
                      struct java_text *method);

/* Return the package of an installed app's file from the path of a mapping. False: the path does
 * not contain it. */
bool java_package_of_path(const char *path, struct java_text *package);

/* Code that was compiled at run time, into memory whose path does not show the package. */
bool java_path_is_jit(const char *path);

/* Return the package that a process runs, by its first argument: "com.example.app:remote" belongs
 * to com.example.app, and of a path the file's name counts. */
struct java_text java_package_of_command(const char *argument, size_t length);

#endif
