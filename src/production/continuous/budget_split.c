/* SPDX-License-Identifier: Apache-2.0 */
/* Divide among users, then among the places of each. */
#include "production/continuous/budget_split.h"

#include <stdlib.h>
#include <string.h>

/* The part of the share that a quiet one keeps. */
#define QUIET_KEEPS 0.25

static double share_of(size_t rank, size_t count)
{
    double r = (double)rank, k = (double)count;
    return 1 / ((r + 1) * (r + 2)) + 1 / (k * (k + 1));
}

static int budget_split_compare(const void *left, const void *right)
{
    const struct budget_part *a = left, *b = right;
    int order = strcmp(a->user, b->user);
    if (order != 0)
        return order;
    return a->came < b->came ? -1 : a->came > b->came;
}

/* Those of one user, the first that came before the others. */
struct user {
    size_t first, count;
    uint64_t came;
};

static int compare_users(const void *left, const void *right)
{
    const struct user *a = left, *b = right;
    return a->came < b->came ? -1 : a->came > b->came;
}

/* Let quiet ones keep a part of what they have, and the others have the rest in proportion. */
static void lend(struct budget_part *parts, size_t count)
{
    double sum = 0, busy = 0;
    for (size_t i = 0; i < count; i++) {
        sum += parts[i].share;
        busy += parts[i].is_quiet ? 0 : parts[i].share;
    }
    double factor = busy > 0 ? (sum - QUIET_KEEPS * (sum - busy)) / busy : 1;
    for (size_t i = 0; i < count && busy > 0; i++)
        parts[i].share *= parts[i].is_quiet ? QUIET_KEEPS : factor;
}

/* Return the users of sorted parts in the order of their coming; NULL: no memory. */
static struct user *list_users(const struct budget_part *parts, size_t count, size_t *user_count)
{
    struct user *users = calloc(count + 1, sizeof(*users));
    *user_count = 0;
    for (size_t i = 0; users != NULL && i < count; i++) {
        if (i == 0 || strcmp(parts[i].user, parts[i - 1].user) != 0)
            users[(*user_count)++] = (struct user){.first = i, .came = parts[i].came};
        users[*user_count - 1].count++;
    }
    if (users != NULL)
        qsort(users, *user_count, sizeof(*users), compare_users);
    return users;
}

void budget_split(struct budget_part *parts, size_t count)
{
    size_t user_count;
    qsort(parts, count, sizeof(*parts), budget_split_compare);
    struct user *users = list_users(parts, count, &user_count);
    if (users == NULL)
        return; /* the shares stay */
    for (size_t i = 0; i < user_count; i++) {
        double share = share_of(i, user_count);
        for (size_t j = 0; j < users[i].count; j++)
            parts[users[i].first + j].share = share * share_of(j, users[i].count);
    }
    lend(parts, count);
    free(users);
}
