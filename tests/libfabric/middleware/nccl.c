/* aws-ofi-nccl's send/receive protocol, without a GPU's memory: buffers registered for sending and receiving, tagged messages that
 * both sides know of, and the newest interface version that the library has of those it asks for. */
#include "job.h"

enum { BYTES = 1 << 20, TAG = 1 };
static unsigned char send_buffer[BYTES], receive_buffer[BYTES];

void nccl(struct job *job)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	static const uint32_t versions[] = {FI_VERSION(1, 18), FI_VERSION(1, 6)};
	int asked = -1;

	hints->caps = FI_LOCAL_COMM | FI_REMOTE_COMM | FI_TAGGED | FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->mr_key_size = 2;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->control_progress = FI_PROGRESS_UNSPEC;
	hints->domain_attr->data_progress = FI_PROGRESS_UNSPEC;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	for (int i = 0; i < 2 && asked != 0; i++)
		asked = fi_getinfo(versions[i], NULL, NULL, 0, hints, &info);
	MUST(asked, 0);
	fi_freeinfo(hints);
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 12288};
	struct fi_av_attr av_attr = {0};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	struct fid_mr *mrs[2];
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	MUST(fi_domain(fabric, info, &domain, NULL), 0);
	MUST(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
	MUST(fi_av_open(domain, &av_attr, &av, NULL), 0);
	MUST(fi_endpoint(domain, info, &ep, NULL), 0);
	MUST(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	MUST(fi_ep_bind(ep, &av->fid, 0), 0);
	/* Options of newer libraries that it can do without: FI_OPT_SHARED_MEMORY_PERMITTED among them. */
	_Bool permitted = 0;
	int refused = fi_setopt(&ep->fid, FI_OPT_ENDPOINT, 11, &permitted, sizeof permitted);
	HOLDS(refused == -FI_EOPNOTSUPP || refused == -FI_ENOPROTOOPT);
	MUST(fi_enable(ep), 0);
	void *buffers[] = {send_buffer, receive_buffer};
	for (int i = 0; i < 2; i++) {
		struct iovec iov = {buffers[i], BYTES};
		struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = FI_SEND | FI_RECV,
					  .requested_key = (uint64_t)i};

		MUST(fi_mr_regattr(domain, &attr, 0, &mrs[i]), 0);
	}
	char name[64] = "", names[2 * sizeof name];
	size_t bytes = sizeof name;
	fi_addr_t self, other;
	MUST(fi_getname(&ep->fid, name, &bytes), 0);
	job_exchange(job, name, sizeof name, names);
	MUST(fi_av_insert(av, names + (1 - job->rank) * sizeof name, 1, &other, 0, NULL), 1);
	MUST(fi_av_insert(av, name, 1, &self, 0, NULL), 1);

	struct fi_context2 contexts[3];
	struct fi_cq_tagged_entry entries[8];
	int ended = 0;
	job_fill(send_buffer, BYTES, job->rank);
	POST(cq, fi_trecv(ep, receive_buffer, BYTES, fi_mr_desc(mrs[1]), FI_ADDR_UNSPEC, TAG, 0, &contexts[0]));
	POST(cq, fi_tsend(ep, send_buffer, BYTES, fi_mr_desc(mrs[0]), other, TAG, &contexts[1]));
	while (ended < 2) {
		ssize_t got = fi_cq_read(cq, entries, 8);

		HOLDS(got > 0 || got == -FI_EAGAIN);
		ended += got > 0 ? (int)got : 0;
	}
	HOLDS(job_is(receive_buffer, BYTES, 1 - job->rank));
	/* To itself, as it does where the last of a ring is the first. */
	POST(cq, fi_trecv(ep, receive_buffer, 100, fi_mr_desc(mrs[1]), FI_ADDR_UNSPEC, TAG + 1, 0, &contexts[0]));
	POST(cq, fi_tsend(ep, send_buffer, 100, fi_mr_desc(mrs[0]), self, TAG + 1, &contexts[1]));
	job_next(cq, entries);
	job_next(cq, entries);
	HOLDS(job_is(receive_buffer, 100, job->rank));
	job_barrier(job);
	struct fid *fids[] = {&mrs[0]->fid, &mrs[1]->fid, &ep->fid, &cq->fid, &av->fid, &domain->fid, &fabric->fid};
	for (size_t i = 0; i < sizeof fids / sizeof *fids; i++)
		MUST(fi_close(fids[i]), 0);
	fi_freeinfo(info);
}
