/* Two processes that a launcher started, as programs on libfabric find themselves, and what all of them do alike. */
#ifndef JOB_H
#define JOB_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job {
	/* 0 or 1, of two. */
	int rank;
	/* To the other one. */
	int fd;
};

/* FI_MR_BASIC, which newer headers call deprecated. */
enum { MR_BASIC = 1 };

/* Gives `mine` to the other, and has both, rank 0's first, in `both`. */
void job_exchange(struct job *job, const void *mine, size_t bytes, void *both);
void job_barrier(struct job *job);

/* What the program counts on, without which it would end as well. */
#define MUST(seen, wanted)                                                                        \
	do {                                                                                      \
		long long seen_ = (long long)(seen), wanted_ = (long long)(wanted);               \
		if (seen_ != wanted_) {                                                           \
			printf("%s:%d: %s is %lld, should be %lld\n", __FILE__, __LINE__, #seen,  \
			       seen_, wanted_);                                                   \
			exit(1);                                                                  \
		}                                                                                 \
	} while (0)
#define HOLDS(condition) MUST(!!(condition), 1)

/* Posts until there is room, making progress by the queue meanwhile. */
#define POST(cq, call)                                                                            \
	do {                                                                                      \
		ssize_t posted_;                                                                  \
		while ((posted_ = (call)) == -FI_EAGAIN)                                          \
			fi_cq_read(cq, NULL, 0);                                                  \
		MUST(posted_, 0);                                                                 \
	} while (0)

/* One entry of a queue, in whatever format it has. */
void job_next(struct fid_cq *cq, void *entry);
/* Until the byte has come, making progress by the queue. */
void job_arrived(struct fid_cq *cq, volatile unsigned char *byte, unsigned char wanted);
/* The first answer to these hints; the hints are freed. */
struct fi_info *job_info(uint32_t version, struct fi_info *hints);
void job_fill(unsigned char *bytes, size_t count, int seed);
int job_is(const unsigned char *bytes, size_t count, int seed);

void sandia_shmem(struct job *job);
void gasnet(struct job *job);
void charm(struct job *job);
void mercury(struct job *job);
void chapel(struct job *job);
void nccl(struct job *job);
void oneccl(struct job *job);

#endif
