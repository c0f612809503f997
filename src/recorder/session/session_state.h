/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#ifndef HEAPPROFD_RECORDER_SESSION_SESSION_STATE_H
#define HEAPPROFD_RECORDER_SESSION_SESSION_STATE_H

#include "recorder/session/session.h"

/* Take in what the rings hold in the middle of other work: write no dump and end no target. So no
 * program waits for the end of that work. `context` is the session. */
void session_drain(void *context);

/* Write a target's last dump, and close it. */
void session_end_target(struct session *session, struct target *target,
                        const struct target_end *caller_end);

/* Write the profiles of programs that their processes have replaced by exec. */
void session_dump_superseded(struct session *session);

/* Close a target and add its figures to those of the targets that are gone. */
void session_remove_target(struct session *session, struct target *target);

/*
 * Return whether a process with these credentials may say hello. In a command's session these are
 * processes of our user, and descendants of the command, which may have changed their user. An
 * unrelated process of another user is refused.
 */
bool session_may_speak(const struct session *session, const struct process_info *info, uid_t uid);

/* session_cgroups.c: watch the cgroup of a new target; stop watching that of an old one. */
void session_watch_cgroup(struct session *session, struct target *target);
void session_leave_cgroup(struct session *session, struct target *target);

/* session_process_end.c: return how the target's process, which is dead, ended, as waitpid gives it; -1:
 * unknown. */
int32_t session_exit_status(const struct target *target);
/* Write how it ended. */
void session_write_process_end(struct session *session, struct target *target, int32_t exit_status);

/* Note that the target's process became another program, and when. */
void session_note_exec(struct target *target, const char *became, const char *hint);

#endif
