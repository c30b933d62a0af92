/* Programs beyond MPI, as a provider meets them: their requests of fi_getinfo, the order of their calls, and one exchange each,
 * between two processes. What is asked for, and in which order, was read in each program's sources; nothing else is theirs. */
#include "../host.h"
#include "job.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
	const char *name;
	void (*run)(struct job *job);
} programs[] = {
	{"sandia-shmem", sandia_shmem}, {"gasnet", gasnet}, {"charm", charm}, {"mercury", mercury},
	{"chapel", chapel},             {"nccl", nccl},     {"oneccl", oneccl},
};

void job_exchange(struct job *job, const void *mine, size_t bytes, void *both)
{
	char *place = both;

	MUST(write(job->fd, mine, bytes), bytes);
	for (size_t got = 0; got < bytes;) {
		ssize_t more = read(job->fd, place + (1 - job->rank) * bytes + got, bytes - got);

		HOLDS(more > 0);
		got += (size_t)more;
	}
	memcpy(place + job->rank * bytes, mine, bytes);
}

void job_barrier(struct job *job)
{
	char one = 1, both[2];

	job_exchange(job, &one, 1, both);
}

void job_next(struct fid_cq *cq, void *entry)
{
	ssize_t got;

	while ((got = fi_cq_read(cq, entry, 1)) == -FI_EAGAIN)
		;
	if (got == -FI_EAVAIL) {
		struct fi_cq_err_entry error = {0};

		fi_cq_readerr(cq, &error, 0);
		printf("an operation failed: %s\n", fi_strerror(error.err));
	}
	MUST(got, 1);
}

void job_arrived(struct fid_cq *cq, volatile unsigned char *byte, unsigned char wanted)
{
	while (*byte != wanted)
		fi_cq_read(cq, NULL, 0);
}

struct fi_info *job_info(uint32_t version, struct fi_info *hints)
{
	struct fi_info *info = NULL;

	MUST(fi_getinfo(version, NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(hints);
	MUST(strcmp(info->fabric_attr->prov_name, "emp"), 0);
	return info;
}

void job_fill(unsigned char *bytes, size_t count, int seed)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = (unsigned char)(i * 31 + (i >> 8) + (size_t)seed);
}

int job_is(const unsigned char *bytes, size_t count, int seed)
{
	for (size_t i = 0; i < count; i++)
		if (bytes[i] != (unsigned char)(i * 31 + (i >> 8) + (size_t)seed))
			return 0;
	return 1;
}

static int run(void (*program)(struct job *job))
{
	int ends[2], good = 1;
	pid_t children[2];

	HOLDS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	for (int rank = 0; rank < 2; rank++) {
		children[rank] = fork();
		HOLDS(children[rank] >= 0);
		if (children[rank] == 0) {
			struct job job = {rank, ends[rank]};

			/* Nothing here takes long; what hangs is ended. */
			alarm(60);
			close(ends[1 - rank]);
			host_enter(rank);
			program(&job);
			exit(0);
		}
	}
	close(ends[0]);
	close(ends[1]);
	for (int rank = 0; rank < 2; rank++) {
		int status = 0;

		waitpid(children[rank], &status, 0);
		if (WIFSIGNALED(status))
			printf("rank %d was ended by signal %d\n", rank, WTERMSIG(status));
		good &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
	}
	return good;
}

int main(int count, char **arguments)
{
	int made = 0, failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
		if (count > 1 && strcmp(arguments[1], programs[i].name))
			continue;
		int good = run(programs[i].run);

		printf("%-12s %s\n", programs[i].name, good ? "ok" : "FAILED");
		made++;
		failed += !good;
	}
	printf("%d programs, %d failed\n", made, failed);
	return failed != 0 || made == 0;
}
