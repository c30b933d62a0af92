/* Ranks tell each other their numbers, by a ring of messages of several lengths, and sum them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size, sum = 0, bad = 0, hosts = 0;
    char host[MPI_MAX_PROCESSOR_NAME] = "", *names;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &(int){0});
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    bad |= sum != size * (size - 1) / 2;
    for (int bytes = 1; bytes <= 1 << 20; bytes *= 32) {
        char *out = malloc(bytes), *in = malloc(bytes);
        int from = (rank + size - 1) % size;

        memset(out, rank + bytes % 7, bytes);
        MPI_Sendrecv(out, bytes, MPI_CHAR, (rank + 1) % size, 5, in, bytes, MPI_CHAR, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int at = 0; at < bytes; at++)
            bad |= in[at] != (char)(from + bytes % 7);
        free(out);
        free(in);
    }
    MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    names = calloc(size, sizeof(host));
    MPI_Gather(host, sizeof(host), MPI_CHAR, names, sizeof(host), MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int one = 0; one < size; one++) {
        int seen = 0;

        for (int other = 0; other < one; other++)
            seen |= !strcmp(names + one * sizeof(host), names + other * sizeof(host));
        hosts += !seen;
    }
    if (rank == 0)
        printf("%d ranks on %d hosts: %s\n", size, hosts, bad ? "sums are wrong" : "all sums are right");
    MPI_Finalize();
    return bad;
}
