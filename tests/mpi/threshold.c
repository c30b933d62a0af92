/*
 * Messages that nobody waits for yet, of lengths around the threshold above which an MPI announces them, are found by MPI_Probe and
 * received whole: two ranks, the threshold set for MPICH by MPIR_CVAR_CH4_OFI_EAGER_THRESHOLD.
 *
 *   threshold [ROUNDS]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 17, AT_ONCE = 4 };

static unsigned char byte_of(int length, int number, int at)
{
	return (unsigned char)(length * 31 + number * 7 + at + (at >> 8));
}

static void fill(unsigned char *buffer, int length, int number)
{
	for (int at = 0; at < length; at++)
		buffer[at] = byte_of(length, number, at);
}

static int is_filled(const unsigned char *buffer, int length, int number)
{
	for (int at = 0; at < length; at++)
		if (buffer[at] != byte_of(length, number, at))
			return 0;
	return 1;
}

int main(int argc, char **argv)
{
	static unsigned char out[AT_ONCE][MOST], in[MOST];
	int rounds = argc > 1 ? atoi(argv[1]) : 20, rank, wrong = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int round = 0; round < rounds; round++)
		for (int around = 256; around <= MOST / 2; around *= 2)
			for (int more = -1; more <= 1; more++) {
				int length = around + more;
				if (rank == 1) {
					MPI_Request sends[AT_ONCE];
					for (int n = 0; n < AT_ONCE; n++) {
						fill(out[n], length, n);
						MPI_Isend(out[n], length, MPI_BYTE, 0, n, MPI_COMM_WORLD, &sends[n]);
					}
					MPI_Waitall(AT_ONCE, sends, MPI_STATUSES_IGNORE);
				} else if (rank == 0) {
					/* The last one first: the others are unexpected. */
					for (int n = AT_ONCE - 1; n >= 0; n--) {
						MPI_Status status;
						int count;
						MPI_Probe(1, n, MPI_COMM_WORLD, &status);
						MPI_Get_count(&status, MPI_BYTE, &count);
						wrong += count != length;
						memset(in, 0, (size_t)length);
						MPI_Recv(in, MOST, MPI_BYTE, 1, n, MPI_COMM_WORLD, &status);
						MPI_Get_count(&status, MPI_BYTE, &count);
						wrong += count != length || !is_filled(in, length, n);
					}
				}
			}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("threshold: %d wrong\n", wrong);
	MPI_Finalize();
	return wrong != 0;
}
