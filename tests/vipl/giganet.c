/* What programs for Giganet's cLAN are written to: its names, types and calls. */
#define VIPL095
#define VIPL_GIGANET
#include "check.h"

/* As such programs do that must go with older libraries. */
#ifndef VIP_ERROR_NOT_SUPPORTED
#error "it is to be seen by the preprocessor"
#endif

static void on_message(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
{
	(void)nic, (void)vi, (void)d;
	__atomic_fetch_add((int *)context, 1, __ATOMIC_RELEASE);
}

/* A poll as the compiler makes it of these types, whatever it thinks of other threads. */
static int poll(VIP_DESCRIPTOR *d)
{
	double start = seconds();
	for (unsigned looks = 0; !(d->Control.Status & VIP_STATUS_DONE);)
		if (++looks % 100000 == 0 && seconds() - start > 60)
			return 0;
	return 1;
}

void test_giganet(void)
{
	/* The first NIC under the names that it has there. */
	static const char *const names[] = {"/dev/clanvi0", "VINIC", "/dev/via_lo"};
	for (int i = 0; i < 3; i++) {
		VIP_NIC_HANDLE nic;
		VIP_NIC_ATTRIBUTES about;
		OK(VipOpenNic(names[i], &nic));
		OK(VipQueryNic(nic, &about));
		CHECK(strcmp(about.Name, a.about.Name) == 0);
		OK(VipCloseNic(nic));
	}

	VIP_AUTODISCOVERY_LIST list;
	VIP_NET_ADDRESS *one = NULL;
	list.ADAddrArray = one;
	CHECK(list.ADAddrArray == one && sizeof list == 24);
	CHECK((int)VIP_ERROR == VIP_DESCRIPTOR_ERROR && VIP_BASE_SERVICES == 7);
	CHECK(VIP_SERVICE_ACK == 1 << 14 && VIP_SERVICE_DFC == 1 << 15);
	VIP_DESCRIPTOR d;
	CHECK((void *)&d.Control == (void *)&d.CS && (void *)&d.Data[1] == (void *)&d.DS[1]);
	d.CS.Next.Descriptor = &d;
	CHECK(d.CS.Next.Address == &d);

	connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
	CHECK(VipGetUserData(a.vi) == NULL);
	VipSetUserData(a.vi, &list);
	VipSetUserData(b.vi, &d);
	CHECK(VipGetUserData(a.vi) == &list && VipGetUserData(b.vi) == &d);
	VipSetUserData(NOTHING, &list);
	CHECK(VipGetUserData(NOTHING) == NULL);

	VIP_BOOLEAN deferred = 7;
	OK(VipPostDeferredSends(a.vi, VIP_FALSE, &deferred));
	CHECK(deferred == VIP_FALSE);
	OK(VipPostDeferredSends(a.vi, VIP_TRUE, NULL));
	BAD(VipPostDeferredSends(NOTHING, VIP_FALSE, &deferred));

	VIP_CQ_HANDLE cq;
	VIP_EVENT_HANDLE event = NULL;
	OK(VipCreateCQ(a.nic, 8, &cq));
	RETURNS(VipAddTagCQ(cq, &event, 1, 0), VIP_ERROR_NOT_SUPPORTED);
	RETURNS(VipRemoveTagCQ(cq, event, 1), VIP_ERROR_NOT_SUPPORTED);
	BAD(VipAddTagCQ(NOTHING, &event, 1, 0));
	BAD(VipRemoveTagCQ(NOTHING, event, 1));
	OK(VipDestroyCQ(cq));

	/* Statuses are polled in memory; handlers by their types. */
	VIP_VI_CALLBACK handler = on_message;
	int count = 0;
	VIP_DESCRIPTOR *in = descriptor(&b, 0, 0, 10), *out = descriptor(&a, 0, 0, 10), *got;
	post_recv(&b, in);
	post_send(&a, out);
	CHECK(poll(in) && poll(out) && in->Control.Length == 10);
	OK(VipRecvDone(b.vi, &got));
	OK(VipSendDone(a.vi, &got));
	OK(VipRecvNotify(b.vi, &count, handler));
	post_recv(&b, descriptor(&b, 0, 0, 10));
	post_send(&a, descriptor(&a, 0, 0, 10));
	UNTIL(__atomic_load_n(&count, __ATOMIC_ACQUIRE) == 1);
	OK(VipSendWait(a.vi, LONG, &got));
	part_both();
	VIP_CQ_CALLBACK of_cq = NULL;
	VIP_ERROR_HANDLER of_errors = NULL;
	CHECK(!of_cq && !of_errors);
}
