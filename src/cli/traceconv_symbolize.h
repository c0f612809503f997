/* traceconv symbolize: names for the code addresses of a trace. */
#ifndef HEAPPROFD_CLI_TRACECONV_SYMBOLIZE_H
#define HEAPPROFD_CLI_TRACECONV_SYMBOLIZE_H

/* argv[0] is the verb; the exit status of the program. */
int traceconv_symbolize(int argc, char **argv);

#endif
