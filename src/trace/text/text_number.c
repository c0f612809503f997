/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Print and read numbers. A double from 2^-20 to 2^53 is a whole number of steps of 2^-k, k at most
 * 72, so 128-bit arithmetic computes its digits exactly. Digits are produced until the rest is less
 * than half a step of the double: the free-format algorithm of Steele and White (1990). All other
 * doubles use printf.
 */
#include "trace/text/text_number.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 wide;

size_t text_number_of_uint(uint64_t value, char *to)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char digits[20], *at = digits + sizeof(digits);
    while (value >= 100) {
        at -= 2;
        memcpy(at, &pairs[value % 100 * 2], 2);
        value /= 100;
    }
    if (value >= 10) {
        at -= 2;
        memcpy(at, &pairs[value * 2], 2);
    } else {
        *--at = (char)('0' + value);
    }
    size_t length = (size_t)(digits + sizeof(digits) - at);
    memcpy(to, at, length);
    return length;
}

/* --- doubles --- */

static size_t print_slowly(double value, char *to)
{
    for (int digits = 15;; digits++) {
        int length = snprintf(to, TEXT_NUMBER_BYTES, "%.*g", digits, value);
        if (digits == 17 || strtod(to, NULL) == value)
            return (size_t)length;
    }
}

/* Write the digits after the point of rest / 2^bits, where the next double is 2^-bits away. Return
 * how many there are. *carry: there are none, and the whole number is one larger. */
static size_t take_digits(wide rest, unsigned bits, bool is_power_of_two, char *to, bool *carry)
{
    /* In quarters of a step: half the distance to the next double is 2. Below a power of two, where
     * doubles are twice as close, it is 1. */
    wide one = (wide)1 << (bits + 2), above = 2, below = is_power_of_two ? 1 : 2;
    size_t length = 0;
    rest <<= 2;
    *carry = one - rest < above;
    if (*carry || rest < below)
        return 0;
    /* Each digit multiplies the distance to the next double by ten, so the loop ends. */
    for (;;) {
        rest *= 10;
        above *= 10;
        below *= 10;
        unsigned digit = (unsigned)(rest >> (bits + 2));
        rest &= one - 1;
        bool may_end_here = rest < below, may_end_above = one - rest < above;
        if (!may_end_here && !may_end_above) {
            to[length++] = (char)('0' + digit);
            continue;
        }
        /* A nine is never rounded up: its ten would have been close enough one digit earlier. */
        bool up = may_end_above && (!may_end_here || rest > one - rest);
        to[length++] = (char)('0' + digit + up);
        return length;
    }
}

#define EXPONENT_LEAST (-20)
#define MANTISSA_BITS 52

size_t text_number_of_double(double value, char *to)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    int exponent = (int)(bits >> MANTISSA_BITS & 0x7ff) - 1023;
    uint64_t mantissa = bits & ((UINT64_C(1) << MANTISSA_BITS) - 1);
    char *at = to;
    bool carry = false;
    if (bits << 1 != 0 && (exponent < EXPONENT_LEAST || exponent > MANTISSA_BITS))
        return print_slowly(value, to);
    if (bits >> 63 != 0)
        *at++ = '-';
    if (bits << 1 == 0) {
        *at++ = '0';
        return (size_t)(at - to);
    }
    unsigned fraction_bits = (unsigned)(MANTISSA_BITS - exponent);
    wide steps = mantissa | UINT64_C(1) << MANTISSA_BITS;
    uint64_t whole = (uint64_t)(steps >> fraction_bits);
    char digits[TEXT_NUMBER_BYTES];
    size_t count = take_digits(steps & (((wide)1 << fraction_bits) - 1), fraction_bits,
                               mantissa == 0, digits, &carry);
    at += text_number_of_uint(whole + carry, at);
    if (count > 0) {
        *at++ = '.';
        memcpy(at, digits, count);
        at += count;
    }
    return (size_t)(at - to);
}

/* --- and back --- */

/* Limits of digits that always fit 64 bits, and of places after the point. */
#define WHOLE_DIGITS_MAX 19
#define PLACES_MAX 19

/* Return whole / power, rounded once, half to even. The quotient has at least 64 bits, and the
 * remainder of the division decides on which side of the half it is. */
static double text_number_divide(uint64_t whole, uint64_t power)
{
    unsigned shift = 64 + (unsigned)__builtin_clzll(whole);
    wide numerator = (wide)whole << shift, quotient = numerator / power;
    uint64_t high = (uint64_t)(quotient >> 64);
    unsigned bits = high != 0 ? 128 - (unsigned)__builtin_clzll(high) : 64;
    unsigned dropped = bits - (MANTISSA_BITS + 2);
    bool has_rest = quotient * power != numerator || (quotient & (((wide)1 << dropped) - 1)) != 0;
    uint64_t kept = (uint64_t)(quotient >> dropped), mantissa = kept >> 1;
    if ((kept & 1) != 0 && (has_rest || (mantissa & 1) != 0))
        mantissa++;
    return ldexp((double)mantissa, (int)dropped + 1 - (int)shift);
}

/* Read a number without an exponent. Return false if it has another form or is too long. */
static bool read_plain(const char *text, size_t length, double *value)
{
    uint64_t whole = 0, power = 1;
    size_t digits = 0, places = 0;
    bool has_point = false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '.' && !has_point) {
            has_point = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9')
            return false;
        whole = whole * 10 + (uint64_t)(text[i] - '0');
        if (has_point)
            power *= 10;
        places += has_point;
        if (++digits > WHOLE_DIGITS_MAX || places > PLACES_MAX)
            return false;
    }
    if (digits == 0)
        return false;
    *value = whole == 0 ? 0 : power == 1 ? (double)whole : text_number_divide(whole, power);
    return true;
}

bool text_number_to_double(const char *text, size_t length, double *value)
{
    char copy[128], *end;
    if (length > 0 && read_plain(text, length, value))
        return true;
    if (length == 0 || length >= sizeof(copy))
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    /* Some write "1.5f". */
    *value = strtod(copy, &end);
    if (end != copy && (*end == 'f' || *end == 'F') && end[1] == '\0')
        end++;
    return *end == '\0';
}
