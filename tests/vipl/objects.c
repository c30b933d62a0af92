/* NICs, tags, memory, VIs: made, asked, changed, and given up; names. */
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

void test_nics(void)
{
	VIP_NIC_HANDLE nic = NULL;
	VIP_NIC_ATTRIBUTES about;
	BAD(VipOpenNic("no-such-nic", &nic));
	BAD(VipOpenNic("nic99", &nic));
	BAD(VipOpenNic(NULL, NULL));
	CHECK(nic == NULL);
	OK(VipOpenNic("nic0", &nic));
	OK(VipQueryNic(nic, &about));
	BAD(VipQueryNic(nic, NULL));
	CHECK(strlen(about.Name) > 0 && strlen(about.Name) < 64);
	CHECK(about.ThreadSafe == VIP_TRUE);
	CHECK(about.NicAddressLen == 6 && about.LocalNicAddress != NULL);
	CHECK(about.MaxDiscriminatorLen >= 16);
	CHECK(about.MaxTransferSize >= 32768);
	CHECK(about.MaxSegmentsPerDesc >= 252);
	CHECK(about.MaxVI >= 1024 && about.MaxCQ >= 1024 && about.MaxCQEntries >= 32768 && about.MaxPtags >= 1024);
	CHECK(about.MaxDescriptorsPerQueue >= 1024 && about.MaxRegisterRegions >= 1024);
	CHECK(about.MaxRegisterBytes >= 1 << 30 && about.MaxRegisterBlockBytes >= 1 << 30);
	CHECK(about.NativeMTU >= 576);
	CHECK(about.ReliabilityLevelSupport == 7 && about.RDMAReadSupport == 6);
	/* One NIC has one address, whoever opens it. */
	CHECK(memcmp(about.LocalNicAddress, a.about.LocalNicAddress, 6) == 0);
	/* What is optional and left out says so. */
	VIP_AUTODISCOVERY_LIST list = {1, NULL, 0};
	RETURNS(VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list), VIP_ERROR_NOT_SUPPORTED);
	BAD(VipQuerySystemManagementInfo(NOTHING, VIP_SMI_AUTODISCOVERY, &list));
	OK(VipErrorCallback(nic, NULL, NULL));
	OK(VipCloseNic(nic));
	BAD(VipCloseNic(nic));
	BAD(VipQueryNic(nic, &about));
	/* Closing takes everything along. */
	struct side other;
	open_side(&other, a.about.Name);
	VIP_VI_HANDLE vi = new_vi(&other, VIP_SERVICE_RELIABLE_DELIVERY);
	VIP_CQ_HANDLE cq;
	OK(VipCreateCQ(other.nic, 8, &cq));
	VIP_DESCRIPTOR *d = descriptor(&other, 0, 0, 100);
	OK(VipPostRecv(vi, d, other.handle));
	OK(VipCloseNic(other.nic));
	BAD(VipDestroyVi(vi));
	BAD(VipDestroyCQ(cq));
	free(other.memory);
}

void test_tags(void)
{
	VIP_PROTECTION_HANDLE one, two;
	OK(VipCreatePtag(a.nic, &one));
	OK(VipCreatePtag(a.nic, &two));
	CHECK(one != two && one != NULL);
	BAD(VipCreatePtag(a.nic, NULL));
	BAD(VipCreatePtag(NOTHING, &one));
	OK(VipDestroyPtag(a.nic, two));
	BAD(VipDestroyPtag(a.nic, two));
	BAD(VipDestroyPtag(b.nic, one));
	BAD(VipDestroyPtag(a.nic, NULL));
	/* In use. */
	RETURNS(VipDestroyPtag(a.nic, a.tag), VIP_ERROR_RESOURCE);
	VIP_VI_ATTRIBUTES wanted = attributes(&a, VIP_SERVICE_UNRELIABLE);
	wanted.Ptag = one;
	VIP_VI_HANDLE vi;
	OK(VipCreateVi(a.nic, &wanted, NULL, NULL, &vi));
	RETURNS(VipDestroyPtag(a.nic, one), VIP_ERROR_RESOURCE);
	OK(VipDestroyVi(vi));
	OK(VipDestroyPtag(a.nic, one));
}

void test_memory(void)
{
	VIP_MEM_ATTRIBUTES wanted = {a.tag, VIP_TRUE, VIP_FALSE}, found;
	VIP_MEM_HANDLE one, two;
	void *base = data(&a, 100);
	OK(VipRegisterMem(a.nic, base, 1000, &wanted, &one));
	/* The same memory may be registered twice. */
	OK(VipRegisterMem(a.nic, base, 1000, &wanted, &two));
	CHECK(one != two && one != 0);
	OK(VipQueryMem(a.nic, base, one, &found));
	CHECK(found.Ptag == a.tag && found.EnableRdmaWrite == VIP_TRUE && found.EnableRdmaRead == VIP_FALSE);
	VIP_PROTECTION_HANDLE tag;
	OK(VipCreatePtag(a.nic, &tag));
	VIP_MEM_ATTRIBUTES other = {tag, VIP_FALSE, VIP_TRUE};
	OK(VipSetMemAttributes(a.nic, base, one, &other));
	OK(VipQueryMem(a.nic, base, one, &found));
	CHECK(found.Ptag == tag && found.EnableRdmaWrite == VIP_FALSE && found.EnableRdmaRead == VIP_TRUE);
	RETURNS(VipDestroyPtag(a.nic, tag), VIP_ERROR_RESOURCE);
	OK(VipSetMemAttributes(a.nic, base, one, &wanted));
	OK(VipDestroyPtag(a.nic, tag));
	RETURNS(VipSetMemAttributes(a.nic, base, one, &other), VIP_INVALID_PTAG);
	BAD(VipSetMemAttributes(a.nic, base, one, NULL));
	BAD(VipSetMemAttributes(a.nic, data(&a, 101), one, &wanted));
	BAD(VipSetMemAttributes(a.nic, base, 77, &wanted));
	BAD(VipQueryMem(a.nic, base, one, NULL));
	BAD(VipQueryMem(a.nic, base, 0, &found));
	BAD(VipQueryMem(b.nic, base, one ^ 0x5550000, &found));
	/* Both address and handle are needed. */
	BAD(VipDeregisterMem(a.nic, data(&a, 99), one));
	BAD(VipDeregisterMem(a.nic, base, one + 1 == two ? 99 : one + 1));
	BAD(VipDeregisterMem(NOTHING, base, one));
	OK(VipDeregisterMem(a.nic, base, one));
	BAD(VipDeregisterMem(a.nic, base, one));
	BAD(VipQueryMem(a.nic, base, one, &found));
	OK(VipDeregisterMem(a.nic, base, two));

	RETURNS(VipRegisterMem(a.nic, base, 1000, &other, &one), VIP_INVALID_PTAG);
	BAD(VipRegisterMem(a.nic, NULL, 1000, &wanted, &one));
	BAD(VipRegisterMem(a.nic, base, 0, &wanted, &one));
	BAD(VipRegisterMem(a.nic, base, 1000, &wanted, NULL));
	BAD(VipRegisterMem(NOTHING, base, 1000, &wanted, &one));
	/* Without attributes: the default tag, and nothing for others. */
	OK(VipRegisterMem(a.nic, base, 1000, NULL, &one));
	OK(VipQueryMem(a.nic, base, one, &found));
	CHECK(found.Ptag == NULL && found.EnableRdmaWrite == VIP_FALSE && found.EnableRdmaRead == VIP_FALSE);
	OK(VipDeregisterMem(a.nic, base, one));
	/* Memory that is not there. */
	void *hole = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap((char *)hole + 4096, 4096);
	BAD(VipRegisterMem(a.nic, hole, 3 * 4096, &wanted, &one));
	BAD(VipRegisterMem(a.nic, hole, (VIP_ULONG)-1, &wanted, &one));
	OK(VipRegisterMem(a.nic, hole, 4096, &wanted, &one));
	OK(VipDeregisterMem(a.nic, hole, one));
	munmap(hole, 4096);
	munmap((char *)hole + 2 * 4096, 4096);
}

void test_vis(void)
{
	VIP_VI_ATTRIBUTES wanted = attributes(&a, VIP_SERVICE_RELIABLE_RECEPTION), found;
	VIP_CQ_HANDLE cq;
	VIP_VI_HANDLE vi;
	VIP_VI_STATE state = VIP_STATE_ERROR;
	VIP_BOOLEAN no_sends = 7, no_receives = 7;
	OK(VipCreateCQ(a.nic, 16, &cq));
	OK(VipCreateVi(a.nic, &wanted, cq, NULL, &vi));
	OK(VipQueryVi(vi, &state, &found, &no_sends, &no_receives));
	CHECK(state == VIP_STATE_IDLE && no_sends == VIP_TRUE && no_receives == VIP_TRUE);
	CHECK(found.ReliabilityLevel == wanted.ReliabilityLevel && found.Ptag == a.tag);
	CHECK(found.MaxTransferSize == TRANSFER && found.QoS == NULL);
	CHECK(found.EnableRdmaWrite == VIP_TRUE && found.EnableRdmaRead == VIP_TRUE);
	OK(VipQueryVi(vi, NULL, NULL, NULL, NULL));
	/* In use. */
	RETURNS(VipDestroyCQ(cq), VIP_ERROR_RESOURCE);
	VIP_DESCRIPTOR *d = descriptor(&a, 0, 0, 10), *got;
	OK(VipPostRecv(vi, d, a.handle));
	OK(VipQueryVi(vi, &state, &found, &no_sends, &no_receives));
	CHECK(no_sends == VIP_TRUE && no_receives == VIP_FALSE);
	RETURNS(VipDestroyVi(vi), VIP_ERROR_RESOURCE);
	RETURNS(VipRecvDone(vi, &got), VIP_NOT_DONE);
	CHECK(got == NULL);
	/* What was posted to an idle VI is flushed by disconnecting. */
	OK(VipDisconnect(vi));
	CHECK(d->CS.Status == (RECEIVED | VIP_STATUS_DESC_FLUSHED_ERROR));
	RETURNS(VipDestroyVi(vi), VIP_ERROR_RESOURCE);
	RETURNS(VipRecvDone(vi, &got), VIP_DESCRIPTOR_ERROR);
	CHECK(got == d);
	RETURNS(VipRecvDone(vi, &got), VIP_DESCRIPTOR_ERROR);
	CHECK(got == NULL);
	OK(VipDestroyVi(vi));
	BAD(VipDestroyVi(vi));
	BAD(VipQueryVi(vi, &state, &found, &no_sends, &no_receives));
	OK(VipDestroyCQ(cq));

	BAD(VipCreateVi(NOTHING, &wanted, NULL, NULL, &vi));
	BAD(VipCreateVi(a.nic, NULL, NULL, NULL, &vi));
	BAD(VipCreateVi(a.nic, &wanted, NULL, NULL, NULL));
	BAD(VipCreateVi(a.nic, &wanted, cq, NULL, &vi));
	BAD(VipCreateVi(a.nic, &wanted, NULL, NOTHING, &vi));
	wanted.ReliabilityLevel = 3;
	RETURNS(VipCreateVi(a.nic, &wanted, NULL, NULL, &vi), VIP_INVALID_RELIABILITY_LEVEL);
	wanted = attributes(&a, VIP_SERVICE_UNRELIABLE);
	wanted.MaxTransferSize = a.about.MaxTransferSize + 1;
	RETURNS(VipCreateVi(a.nic, &wanted, NULL, NULL, &vi), VIP_INVALID_MTU);
	wanted = attributes(&a, VIP_SERVICE_UNRELIABLE);
	wanted.QoS = &wanted;
	RETURNS(VipCreateVi(a.nic, &wanted, NULL, NULL, &vi), VIP_INVALID_QOS);
	wanted = attributes(&a, VIP_SERVICE_UNRELIABLE);
	wanted.Ptag = b.tag;
	RETURNS(VipCreateVi(a.nic, &wanted, NULL, NULL, &vi), VIP_INVALID_PTAG);
	wanted = attributes(&a, VIP_SERVICE_UNRELIABLE);
	wanted.EnableRdmaRead = VIP_TRUE;
	RETURNS(VipCreateVi(a.nic, &wanted, NULL, NULL, &vi), VIP_INVALID_RDMAREAD);
}

void test_vi_attributes(void)
{
	VIP_VI_ATTRIBUTES wanted, found;
	a.vi = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	b.vi = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
	wanted = attributes(&a, VIP_SERVICE_UNRELIABLE);
	wanted.MaxTransferSize = 70000;
	OK(VipSetViAttributes(a.vi, &wanted));
	OK(VipQueryVi(a.vi, NULL, &found, NULL, NULL));
	CHECK(found.ReliabilityLevel == VIP_SERVICE_UNRELIABLE && found.MaxTransferSize == 70000);
	BAD(VipSetViAttributes(a.vi, NULL));
	BAD(VipSetViAttributes(NOTHING, &wanted));
	wanted.ReliabilityLevel = 0;
	RETURNS(VipSetViAttributes(a.vi, &wanted), VIP_INVALID_RELIABILITY_LEVEL);
	wanted = attributes(&a, VIP_SERVICE_UNRELIABLE);
	wanted.MaxTransferSize = 0;
	RETURNS(VipSetViAttributes(a.vi, &wanted), VIP_INVALID_MTU);
	wanted = attributes(&a, VIP_SERVICE_UNRELIABLE);
	wanted.QoS = &wanted;
	RETURNS(VipSetViAttributes(a.vi, &wanted), VIP_INVALID_QOS);
	wanted = attributes(&a, VIP_SERVICE_UNRELIABLE);
	wanted.Ptag = NOTHING;
	RETURNS(VipSetViAttributes(a.vi, &wanted), VIP_INVALID_PTAG);
	wanted.Ptag = NULL;
	OK(VipSetViAttributes(a.vi, &wanted));
	OK(VipQueryVi(a.vi, NULL, &found, NULL, NULL));
	CHECK(found.Ptag == NULL);
	wanted = attributes(&a, VIP_SERVICE_UNRELIABLE);
	wanted.EnableRdmaRead = VIP_TRUE;
	RETURNS(VipSetViAttributes(a.vi, &wanted), VIP_INVALID_RDMAREAD);
	wanted = attributes(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	OK(VipSetViAttributes(a.vi, &wanted));
	/* Not under posted receives, and not while connected. */
	VIP_DESCRIPTOR *d = descriptor(&a, 0, 0, 10);
	post_recv(&a, d);
	wanted.ReliabilityLevel = VIP_SERVICE_RELIABLE_RECEPTION;
	RETURNS(VipSetViAttributes(a.vi, &wanted), VIP_INVALID_STATE);
	wanted.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
	OK(VipSetViAttributes(a.vi, &wanted));
	join(a.vi, b.vi);
	RETURNS(VipSetViAttributes(a.vi, &wanted), VIP_INVALID_STATE);
	RETURNS(VipDestroyVi(a.vi), VIP_INVALID_STATE);
	part_both();
}

void test_names(void)
{
	VIP_NET_ADDRESS *found = address(&a, "room for the longest discriminator that there may be, 64 bytes..");
	char own[256], name[256];
	VIP_ULONG length = sizeof name;
	const char *called = getenv("EMP_NAME");
	gethostname(own, sizeof own);
	if (!called)
		called = own;
	RETURNS(VipNSGetHostByName(a.nic, own, found, 0), VIP_ERROR_NAMESERVICE);
	RETURNS(VipNSGetHostByAddr(a.nic, found, name, &length), VIP_ERROR_NAMESERVICE);
	RETURNS(VipNSShutdown(a.nic), VIP_ERROR_NAMESERVICE);
	BAD(VipNSInit(NOTHING, NULL));
	OK(VipNSInit(a.nic, NULL));
	OK(VipNSGetHostByName(a.nic, (char *)called, found, 0));
	CHECK(found->HostAddressLen == 6 && found->DiscriminatorLen == 0);
	CHECK(memcmp(found->HostAddress, a.about.LocalNicAddress, 6) == 0);
	OK(VipNSGetHostByAddr(a.nic, found, name, &length));
	CHECK(strcmp(name, called) == 0 && length == strlen(called) + 1);
	length = 1;
	BAD(VipNSGetHostByAddr(a.nic, found, name, &length));
	CHECK(length == strlen(called) + 1);
	/* There is one address of this name. */
	RETURNS(VipNSGetHostByName(a.nic, (char *)called, found, 1), VIP_ERROR_NAMESERVICE);
	OK(VipNSGetHostByName(a.nic, "10.1.2.3", found, 0));
	const VIP_UINT8 *bytes = found->HostAddress;
	CHECK(bytes[2] == 10 && bytes[5] == 3);
	/* Nobody there can be asked. */
	length = sizeof name;
	RETURNS(VipNSGetHostByAddr(a.nic, found, name, &length), VIP_ERROR_NAMESERVICE);
	RETURNS(VipNSGetHostByName(a.nic, "no-such-machine.invalid", found, 0), VIP_ERROR_NAMESERVICE);
	BAD(VipNSGetHostByName(a.nic, NULL, found, 0));
	BAD(VipNSGetHostByName(a.nic, own, NULL, 0));
	BAD(VipNSGetHostByAddr(a.nic, NULL, name, &length));
	BAD(VipNSGetHostByAddr(a.nic, found, NULL, &length));
	BAD(VipNSGetHostByAddr(a.nic, found, name, NULL));
	BAD(VipNSGetHostByName(NOTHING, own, found, 0));
	BAD(VipNSGetHostByAddr(NOTHING, found, name, &length));
	OK(VipNSShutdown(a.nic));
	BAD(VipNSShutdown(NOTHING));
	RETURNS(VipNSGetHostByName(a.nic, own, found, 0), VIP_ERROR_NAMESERVICE);
}
