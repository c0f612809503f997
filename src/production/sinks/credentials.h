/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What proves to the other side who we are. The secrets come from files, are read again for each
 * request (so a renewed token is used at once), and are wiped afterwards. They go into the head of
 * a request and nowhere else.
 *
 *     token_file                 Authorization: Bearer ...
 *     username, password_file    Authorization: Basic ...
 *     api_key_file               X-API-Key: ...
 *     tenant                     X-Scope-OrgID: ... (no secret)
 */
#ifndef HEAPPROFD_PRODUCTION_SINKS_CREDENTIALS_H
#define HEAPPROFD_PRODUCTION_SINKS_CREDENTIALS_H

#include <curl/curl.h>

#include "util/settings.h"

struct credentials {
    char *token_file, *username, *password_file, *api_key_file, *tenant;
};

/* Take the settings, and read the files once to check them. Return 0 or a negative errno with a
 * message. */
int credentials_open(struct credentials *credentials, struct settings_section *section,
                     struct error *error);
void credentials_close(struct credentials *credentials);

/* Return whether requests have a secret. */
bool credentials_any(const struct credentials *credentials);

#define CREDENTIALS_SECRETS_MAX 4
/* The secrets of one request, as texts that an answer must not bring into a message. */
struct credentials_used {
    char *secrets[CREDENTIALS_SECRETS_MAX];
    int count;
};

/* Append lines to the head of a request. Return 0, or a negative errno with a message; what was
 * added must be freed by credentials_forget() in either case. */
int credentials_add(const struct credentials *credentials, struct curl_slist **lines,
                    struct credentials_used *used, struct error *error);

/* Wipe and free the lines and the secrets. */
void credentials_forget(struct curl_slist **lines, struct credentials_used *used);

/* Replace every secret in a text by asterisks. */
void credentials_hide(const struct credentials_used *used, char *text);

/* Return whether a file with a secret has safe permissions. If not, fill *error. */
int credentials_check_file(const char *path, int fd, struct error *error);

#endif
