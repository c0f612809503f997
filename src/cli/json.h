/* JSON as the verbs print it. */
#ifndef HEAPPROFD_CLI_JSON_H
#define HEAPPROFD_CLI_JSON_H

#include <stdio.h>

/* A string in quotes, with what must be escaped escaped. */
void json_print_string(FILE *out, const char *text);

#endif
