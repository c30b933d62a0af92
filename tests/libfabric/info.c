/* fi_getinfo(3): each hint is kept, or refused with FI_ENODATA. */
#include "world.h"

#include <stdlib.h>

static int ask(struct fi_info *hints, struct fi_info **info)
{
	*info = NULL;
	return fi_getinfo(API, NULL, NULL, 0, hints, info);
}

/* Asks for one thing that is not to be had. */
#define REFUSED(change)                                      \
	do {                                                 \
		struct fi_info *h = hints_new(), *i;         \
		change;                                      \
		EQUAL(ask(h, &i), -FI_ENODATA);              \
		if (i)                                       \
			fi_freeinfo(i);                      \
		fi_freeinfo(h);                              \
	} while (0)

/* Asks for one thing, and looks whether it was given. */
#define KEPT(change, condition)                              \
	do {                                                 \
		struct fi_info *h = hints_new(), *i;         \
		change;                                      \
		EQUAL(ask(h, &i), 0);                        \
		if (i) {                                     \
			CHECK(condition);                    \
			fi_freeinfo(i);                      \
		}                                            \
		fi_freeinfo(h);                              \
	} while (0)

static void what_is_offered(void)
{
	struct fi_info *hints = hints_new(), *info;

	EQUAL(ask(hints, &info), 0);
	fi_freeinfo(hints);
	if (!info)
		return;
	CHECK(!strcmp(info->fabric_attr->prov_name, "emp"));
	CHECK(info->ep_attr->type == FI_EP_RDM);
	CHECK((info->caps & (FI_MSG | FI_TAGGED)) == (FI_MSG | FI_TAGGED));
	CHECK(info->caps & FI_MULTI_RECV && info->caps & FI_DIRECTED_RECV && info->caps & FI_SOURCE);
	CHECK(info->caps & FI_LOCAL_COMM && info->caps & FI_REMOTE_COMM);
	CHECK((info->caps & (FI_RMA | FI_ATOMIC)) == (FI_RMA | FI_ATOMIC));
	CHECK(info->caps & FI_REMOTE_READ && info->caps & FI_REMOTE_WRITE);
	CHECK(info->tx_attr->msg_order & FI_ORDER_ATOMIC_WAW);
	CHECK((info->caps & (FI_SEND | FI_RECV)) == (FI_SEND | FI_RECV));
	CHECK(info->mode == 0 && info->domain_attr->mr_mode == 0);
	CHECK(info->domain_attr->cq_data_size == 8);
	CHECK(info->domain_attr->resource_mgmt == FI_RM_ENABLED);
	CHECK(info->tx_attr->inject_size >= 8192);
	CHECK(info->tx_attr->iov_limit >= 4 && info->rx_attr->iov_limit >= 4);
	CHECK(info->tx_attr->msg_order & FI_ORDER_SAS && info->rx_attr->msg_order & FI_ORDER_SAS);
	/* An engine in a service has bounds of its own (docs/guide/mpi.md). */
	const char *board = getenv("FI_EMP_BOARD");
	CHECK(info->ep_attr->max_msg_size >= (board && !strcmp(board, "daemon") ? (size_t)1 << 26 : (size_t)1 << 32));
	CHECK(info->nic && info->nic->device_attr && info->nic->device_attr->name);
	CHECK(info->nic && info->nic->link_attr && info->nic->link_attr->state == FI_LINK_UP);
	CHECK(info->nic && info->nic->link_attr && info->nic->link_attr->mtu > 500);
	/* Copies are whole, and independent of what they were made from. */
	struct fi_info *copy = fi_dupinfo(info);
	CHECK(copy != NULL);
	fi_freeinfo(info);
	if (copy) {
		char text[8192];

		CHECK(copy->nic && copy->nic->link_attr && copy->nic->link_attr->address);
		CHECK(strstr(fi_tostr_r(text, sizeof text, copy, FI_TYPE_INFO), "interface: "));
		fi_freeinfo(copy);
	}
}

static void hints_are_kept_or_refused(void)
{
	REFUSED(h->ep_attr->type = FI_EP_MSG);
	REFUSED(h->ep_attr->type = FI_EP_DGRAM);
	REFUSED(h->caps = FI_MSG | FI_MULTICAST);
	REFUSED(h->caps = FI_MSG | FI_COLLECTIVE);
	REFUSED(h->caps = FI_MSG | FI_HMEM);
	REFUSED(h->caps = FI_RMA | FI_TRIGGER);
	REFUSED(h->tx_attr->rma_iov_limit = 100);
	REFUSED(h->tx_attr->msg_order = FI_ORDER_RMA_WAW);
	REFUSED(h->addr_format = FI_SOCKADDR_IN);
	REFUSED(h->ep_attr->protocol = FI_PROTO_RXM);
	REFUSED(h->ep_attr->max_msg_size = SIZE_MAX);
	REFUSED(h->ep_attr->tx_ctx_cnt = 2);
	REFUSED(h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT);
	REFUSED(h->ep_attr->auth_key_size = 8);
	REFUSED(h->tx_attr->inject_size = 1 << 20);
	REFUSED(h->tx_attr->iov_limit = 1000);
	REFUSED(h->rx_attr->iov_limit = 1000);
	REFUSED(h->tx_attr->size = (size_t)1 << 40);
	REFUSED(h->rx_attr->size = (size_t)1 << 40);
	/* FI_ORDER_STRICT, which newer headers call deprecated. */
	REFUSED(h->tx_attr->comp_order = 0x1ff);
	REFUSED(h->tx_attr->op_flags = FI_COMMIT_COMPLETE);
	REFUSED(h->rx_attr->op_flags = FI_INJECT);
	REFUSED(h->domain_attr->cq_data_size = 16);
	REFUSED(h->domain_attr->threading = 99);
	REFUSED(h->domain_attr->av_type = 99);
	REFUSED(h->domain_attr->ep_cnt = (size_t)1 << 40);
	REFUSED(h->domain_attr->name = strdup("no such domain"));
	REFUSED(h->fabric_attr->name = strdup("no such fabric"));

	KEPT(h->caps = FI_TAGGED, (i->caps & (FI_MSG | FI_TAGGED)) == FI_TAGGED);
	KEPT(h->caps = FI_TAGGED | FI_SEND, !(i->caps & FI_RECV));
	KEPT(h->caps = FI_RMA | FI_WRITE, i->caps & FI_WRITE && !(i->caps & FI_READ));
	KEPT(h->caps = FI_MSG | FI_SOURCE, i->caps & FI_SOURCE && !(i->caps & FI_DIRECTED_RECV));
	KEPT(h->domain_attr->threading = FI_THREAD_SAFE, i->domain_attr->threading == FI_THREAD_SAFE);
	KEPT(h->domain_attr->threading = FI_THREAD_DOMAIN,
	     i->domain_attr->threading == FI_THREAD_DOMAIN);
	KEPT(h->domain_attr->threading = FI_THREAD_COMPLETION,
	     i->domain_attr->threading == FI_THREAD_COMPLETION);
	KEPT(h->domain_attr->data_progress = FI_PROGRESS_AUTO,
	     i->domain_attr->data_progress == FI_PROGRESS_AUTO);
	KEPT(h->domain_attr->data_progress = FI_PROGRESS_MANUAL,
	     i->domain_attr->data_progress == FI_PROGRESS_MANUAL);
	KEPT(h->domain_attr->av_type = FI_AV_MAP, i->domain_attr->av_type == FI_AV_MAP);
	KEPT(h->domain_attr->av_type = FI_AV_TABLE, i->domain_attr->av_type == FI_AV_TABLE);
	KEPT(h->tx_attr->size = 4000, i->tx_attr->size >= 4000);
	KEPT(h->rx_attr->size = 4000, i->rx_attr->size >= 4000);
	KEPT(h->tx_attr->op_flags = FI_DELIVERY_COMPLETE,
	     i->tx_attr->op_flags == FI_DELIVERY_COMPLETE);
	KEPT(h->ep_attr->mem_tag_format = 0xff, i->ep_attr->mem_tag_format == 0xff);
	KEPT(h->mode = FI_CONTEXT | FI_CONTEXT2, i->mode == 0);
	KEPT(h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR, i->domain_attr->mr_mode == 0);
}

/* The name of what was offered leads to it again, and an open domain to itself. */
static void names_lead_back(void)
{
	struct fi_info *hints = hints_new(), *first, *again;
	struct world world;

	EQUAL(ask(hints, &first), 0);
	if (first) {
		hints->domain_attr->name = strdup(first->domain_attr->name);
		hints->fabric_attr->name = strdup(first->fabric_attr->name);
		EQUAL(ask(hints, &again), 0);
		CHECK(again && !strcmp(again->domain_attr->name, first->domain_attr->name));
		fi_freeinfo(again);
		fi_freeinfo(first);
	}
	fi_freeinfo(hints);

	world_open(&world, NULL);
	hints = hints_new();
	hints->domain_attr->domain = world.a.domain;
	EQUAL(ask(hints, &again), 0);
	CHECK(again && !strcmp(again->domain_attr->name, world.info->domain_attr->name));
	fi_freeinfo(again);
	hints->domain_attr->domain = NULL;
	fi_freeinfo(hints);
	world_close(&world);
}

/* Nonsense in the environment means no offer, not another one. */
static void garbage_in_parameters(void)
{
	static const char *const garbage[][2] = {
		{"FI_EMP_LINK", "carrier pigeon"}, {"FI_EMP_IFACE", "no such interface"},
		{"FI_EMP_PROFILE", "quick"},       {"FI_EMP_FAULT", "drop:often"},
		{"FI_EMP_LINGER", "-1"},           {"FI_EMP_TIMEOUT", "1e9"},
		{"FI_EMP_TIMEOUT", "0"},           {"FI_EMP_EAGER", "\xff\xfe"},
		{"FI_EMP_WAIT", "patiently"},
	};

	for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
		const char *name = garbage[i][0];
		char *before = getenv(name) ? strdup(getenv(name)) : NULL;
		struct fi_info *hints = hints_new(), *info;

		setenv(name, garbage[i][1], 1);
		EQUAL(ask(hints, &info), -FI_ENODATA);
		fi_freeinfo(info);
		fi_freeinfo(hints);
		if (before)
			setenv(name, before, 1);
		else
			unsetenv(name);
		free(before);
	}
}

void test_info(void)
{
	what_is_offered();
	hints_are_kept_or_refused();
	names_lead_back();
	garbage_in_parameters();
}
