/* Charm++'s ofi machine layer: interface version 1.0, and of remote memory no more than FI_REMOTE_READ is named; long messages are
 * announced by tagged ones and read by whoever gets them. */
#include "job.h"

enum { LONG = 300000, SHORT = 1, ANNOUNCED = 2, DONE = 3 };
static unsigned char message[LONG];

void charm(struct job *job)
{
	struct fi_info *hints = fi_allocinfo();

	hints->mode = FI_CONTEXT;
	hints->domain_attr->mode = ~0ULL;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->caps = FI_TAGGED | FI_RMA | FI_REMOTE_READ;
	struct fi_info *info = job_info(FI_VERSION(1, 0), hints);
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_mr *mr, *into;
	struct fi_context contexts[4];
	struct fi_cq_tagged_entry entry;
	/* It starts with FI_MR_SCALABLE as well, and then has no memory to read long messages into. */
	MUST(info->domain_attr->mr_mode, MR_BASIC);
	HOLDS(info->tx_attr->inject_size > 0);
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	MUST(fi_domain(fabric, info, &domain, NULL), 0);
	MUST(fi_endpoint(domain, info, &ep, NULL), 0);
	MUST(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
	MUST(fi_av_open(domain, &av_attr, &av, NULL), 0);
	MUST(fi_ep_bind(ep, &cq->fid, FI_RECV | FI_TRANSMIT), 0);
	MUST(fi_ep_bind(ep, &av->fid, 0), 0);
	MUST(fi_enable(ep), 0);
	char name[64], names[2 * sizeof name];
	size_t bytes = sizeof name;
	MUST(fi_getname(&ep->fid, name, &bytes), 0);
	job_exchange(job, name, bytes, names);
	MUST(fi_av_insert(av, names, 2, NULL, 0, NULL), 2);
	fi_addr_t other = (fi_addr_t)(1 - job->rank);

	struct header {
		uint64_t address, bytes, key;
	} header, theirs = {0};
	static unsigned char eager[2][4096];
	for (int i = 0; i < 2; i++)
		MUST(fi_trecv(ep, eager[i], sizeof eager[i], NULL, FI_ADDR_UNSPEC, 0, ~0ULL, &contexts[i]), 0);
	job_barrier(job);
	POST(cq, fi_tinject(ep, "short", 6, other, SHORT));
	uint64_t access = FI_REMOTE_READ | FI_READ | FI_RECV | FI_SEND | FI_REMOTE_WRITE | FI_WRITE;
	job_fill(message, LONG, job->rank);
	MUST(fi_mr_reg(domain, message, LONG, access, 0, 51, 0, &mr, NULL), 0);
	header = (struct header){(uint64_t)(uintptr_t)message, LONG, fi_mr_key(mr)};
	POST(cq, fi_tsend(ep, &header, sizeof header, NULL, other, ANNOUNCED, &contexts[2]));
	int shorts = 0, announced = 0, sent = 0;
	while (!shorts || !announced || !sent) {
		job_next(cq, &entry);
		if (entry.flags & FI_SEND) {
			sent = 1;
			continue;
		}
		int nth = entry.op_context == &contexts[1];
		HOLDS(entry.flags & FI_RECV);
		if (entry.tag == SHORT)
			shorts = !strcmp((char *)eager[nth], "short");
		if (entry.tag == ANNOUNCED) {
			memcpy(&theirs, eager[nth], sizeof theirs);
			announced = 1;
		}
	}
	/* What it reads into is allocated and registered then, with a key that it does not choose. */
	unsigned char *got = malloc(theirs.bytes);
	HOLDS(got);
	MUST(fi_mr_reg(domain, got, theirs.bytes, access, 0, 0, 0, &into, NULL), 0);
	POST(cq, fi_read(ep, got, theirs.bytes, NULL, other, theirs.address, theirs.key, &contexts[3]));
	job_next(cq, &entry);
	HOLDS((entry.flags & FI_READ) && job_is(got, LONG, 1 - job->rank));
	MUST(fi_trecv(ep, eager[0], 8, NULL, FI_ADDR_UNSPEC, 0, ~0ULL, &contexts[0]), 0);
	POST(cq, fi_tinject(ep, "done", 5, other, DONE));
	job_next(cq, &entry);
	MUST(entry.tag, DONE);
	job_barrier(job);
	struct fid *fids[] = {&into->fid, &mr->fid, &ep->fid, &av->fid, &cq->fid, &domain->fid, &fabric->fid};
	for (size_t i = 0; i < sizeof fids / sizeof *fids; i++)
		MUST(fi_close(fids[i]), 0);
	fi_freeinfo(info);
	free(got);
}
