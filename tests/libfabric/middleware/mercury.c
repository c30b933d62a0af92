/* Mercury's NA OFI plugin, with addresses as texts, which one process has by node and service and the other by hints: unexpected messages in a buffer for several, expected ones by tag, bulk data by
 * reads and writes of registered memory, and a queue that is waited for by its descriptor. */
#include "../host.h"
#include "job.h"

#include <poll.h>
#include <rdma/fi_eq.h>

enum { BULK = 1 << 20, UNEXPECTED = 4096 };
static unsigned char bulk[BULK], local[BULK], landing[64 * UNEXPECTED];

/* Sleeps as it does: on the descriptor, if nothing is left to be seen. */
static void sleep_and_read(struct fid_fabric *fabric, struct fid_cq *cq, int fd, struct fi_cq_tagged_entry *entry,
			   fi_addr_t *from)
{
	struct fid *fids[] = {&cq->fid};
	ssize_t got;

	while ((got = fi_cq_readfrom(cq, entry, 1, from)) == -FI_EAGAIN)
		if (fi_trywait(fabric, fids, 1) == 0)
			poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 100);
	MUST(got, 1);
}

void mercury(struct job *job)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	hints->mode = FI_ASYNC_IOV | FI_CONTEXT;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_MULTI_RECV;
	hints->tx_attr->op_flags = FI_INJECT_COMPLETE;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL | FI_MR_ENDPOINT;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->fabric_attr->prov_name = strdup("emp");
	hints->addr_format = FI_ADDR_STR;
	/* Both listen where people have said: either asked for with a numeric address, or handed in as their own. */
	char place[64], service[16];
	int port = 20000 + getppid() % 10000;
	snprintf(service, sizeof service, "%d", port + job->rank);
	snprintf(place, sizeof place, "fi_emp://%s:%s", host_address(job->rank), service);
	if (job->rank) {
		hints->src_addr = place;
		hints->src_addrlen = strlen(place) + 1;
		MUST(fi_getinfo(FI_VERSION(1, 13), NULL, NULL, 0, hints, &info), 0);
		hints->src_addr = NULL;
	} else {
		uint64_t flags = FI_SOURCE | FI_NUMERICHOST;
		MUST(fi_getinfo(FI_VERSION(1, 13), host_address(0), service, flags, hints, &info), 0);
	}
	fi_freeinfo(hints);
	HOLDS(info->addr_format == FI_ADDR_STR && info->src_addr && !strcmp(info->src_addr, place));
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	struct fi_av_attr av_attr = {.type = FI_AV_MAP};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_FD, .wait_cond = FI_CQ_COND_NONE,
				     .format = FI_CQ_FORMAT_TAGGED, .size = 8192};
	struct fi_context contexts[4];
	struct fi_cq_tagged_entry entry;
	int fd = -1;
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	MUST(fi_domain(fabric, info, &domain, NULL), 0);
	MUST(fi_av_open(domain, &av_attr, &av, NULL), 0);
	MUST(fi_endpoint(domain, info, &ep, NULL), 0);
	MUST(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
	MUST(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	MUST(fi_ep_bind(ep, &av->fid, 0), 0);
	size_t least = 0, bytes = sizeof least;
	MUST(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &bytes), 0);
	least = UNEXPECTED;
	MUST(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), 0);
	MUST(fi_enable(ep), 0);
	MUST(fi_control(&cq->fid, FI_GETWAIT, &fd), 0);

	/* What people type in leads to the same peer as the name that it says it has, passed on by a program. */
	char name[128] = "", names[2 * sizeof name];
	bytes = sizeof name;
	MUST(fi_getname(&ep->fid, name, &bytes), 0);
	HOLDS(!strncmp(name, "fi_emp://", 9));
	job_exchange(job, name, sizeof name, names);
	snprintf(name, sizeof name, "fi_emp://%s:%d", host_address(1 - job->rank), port + 1 - job->rank);
	fi_addr_t other, again, from = FI_ADDR_UNSPEC;
	MUST(fi_av_insert(av, name, 1, &other, 0, NULL), 1);
	MUST(fi_av_insert(av, names + (1 - job->rank) * sizeof name, 1, &again, 0, NULL), 1);
	MUST(again, other);

	struct iovec iov = {landing, sizeof landing};
	struct fi_msg receive = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &contexts[0]};
	MUST(fi_recvmsg(ep, &receive, FI_MULTI_RECV), 0);
	MUST(fi_mr_reg(domain, bulk, BULK, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0x55, 0, &mr, NULL), 0);
	job_barrier(job);
	/* A request with its tag as data, its answer, which was awaited before, and the bulk in between. */
	char answer[64] = "";
	MUST(fi_trecv(ep, answer, sizeof answer, NULL, other, 7, 0, &contexts[1]), 0);
	POST(cq, fi_senddata(ep, "request", 8, NULL, 7, other, &contexts[2]));
	/* Ends come in whatever order. */
	int ended[4] = {0};
#define UNTIL(wanted)                                                                             \
	while (!ended[wanted]) {                                                                  \
		sleep_and_read(fabric, cq, fd, &entry, &from);                                    \
		ended[(struct fi_context *)entry.op_context - contexts]++;                        \
		if (entry.op_context == &contexts[0])                                             \
			HOLDS(entry.data == 7 && entry.len == 8 && !strcmp(entry.buf, "request")); \
	}
	UNTIL(0);
	UNTIL(2);
	ended[2] = 0;
	job_fill(local, BULK, job->rank);
	struct iovec part = {local, BULK};
	struct fi_rma_iov there = {0, BULK, 0x55};
	struct fi_msg_rma put = {.msg_iov = &part, .iov_count = 1, .addr = other, .rma_iov = &there, .rma_iov_count = 1,
				 .context = &contexts[2]};
	POST(cq, fi_writemsg(ep, &put, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	UNTIL(2);
	POST(cq, fi_tsend(ep, "answer", 7, NULL, other, 7, &contexts[3]));
	UNTIL(3);
	UNTIL(1);
	HOLDS(!strcmp(answer, "answer") && job_is(bulk, BULK, 1 - job->rank));
	job_barrier(job);
	MUST(fi_cancel(&ep->fid, &contexts[0]), 0);
	MUST(fi_av_remove(av, &other, 1, 0), 0);
	MUST(fi_av_remove(av, &again, 1, 0), 0);
	struct fid *fids[] = {&mr->fid, &ep->fid, &cq->fid, &av->fid, &domain->fid, &fabric->fid};
	for (size_t i = 0; i < sizeof fids / sizeof *fids; i++)
		MUST(fi_close(fids[i]), 0);
	fi_freeinfo(info);
}
