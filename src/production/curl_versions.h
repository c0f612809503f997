/* SPDX-License-Identifier: Apache-2.0 */
/* Options of libcurl that versions before 7.87 have in another form, or not at all. */
#ifndef HEAPPROFD_PRODUCTION_CURL_VERSIONS_H
#define HEAPPROFD_PRODUCTION_CURL_VERSIONS_H

#include <curl/curl.h>
#include <stdbool.h>

/* Allow no protocol but HTTP, with and without TLS. */
static inline bool curl_versions_allow_only_http(CURL *easy)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
#else
    long protocols = CURLPROTO_HTTP | CURLPROTO_HTTPS;
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS, protocols) == CURLE_OK;
#endif
}

/* A transfer that ends while its name is looked up leaves the resolver's thread behind. Else, and
 * with an older libcurl, its end waits for that thread: 9 s were seen where name servers do not
 * answer. */
static inline bool curl_versions_leave_resolver(CURL *easy)
{
#if LIBCURL_VERSION_NUM >= 0x075700
    return curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK;
#else
    (void)easy;
    return true;
#endif
}

#endif
