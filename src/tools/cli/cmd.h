/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of heap_profile. Each gets argv starting with its own name and returns the exit
 * code. */
#ifndef HEAPPROFD_TOOLS_CLI_CMD_H
#define HEAPPROFD_TOOLS_CLI_CMD_H

int cmd_check(int argc, char **argv);
int cmd_clean(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_explore(int argc, char **argv);
int cmd_fleet(int argc, char **argv);
int cmd_host(int argc, char **argv);
int cmd_leaks(int argc, char **argv);
int cmd_oom(int argc, char **argv);
int cmd_profile(int argc, char **argv); /* `heap_profile -n NAME` or `-p PID`, without a verb */
int cmd_query(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_trigger(int argc, char **argv);
int cmd_view(int argc, char **argv);

#endif
