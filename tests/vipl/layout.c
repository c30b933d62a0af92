/* What programs are compiled with: sizes, offsets and values. */
#include "check.h"

void test_layout(void)
{
	/* The descriptor, which hardware reads: the same on every machine. */
	CHECK(sizeof(VIP_CONTROL_SEGMENT) == 32);
	AT(VIP_CONTROL_SEGMENT, Next, 0);
	AT(VIP_CONTROL_SEGMENT, NextHandle, 8);
	AT(VIP_CONTROL_SEGMENT, SegCount, 12);
	AT(VIP_CONTROL_SEGMENT, Control, 14);
	AT(VIP_CONTROL_SEGMENT, Reserved, 16);
	AT(VIP_CONTROL_SEGMENT, ImmediateData, 20);
	AT(VIP_CONTROL_SEGMENT, Length, 24);
	AT(VIP_CONTROL_SEGMENT, Status, 28);
	CHECK(sizeof(VIP_ADDRESS_SEGMENT) == 16);
	AT(VIP_ADDRESS_SEGMENT, Handle, 8);
	AT(VIP_ADDRESS_SEGMENT, Reserved, 12);
	CHECK(sizeof(VIP_DATA_SEGMENT) == 16);
	AT(VIP_DATA_SEGMENT, Handle, 8);
	AT(VIP_DATA_SEGMENT, Length, 12);
	CHECK(sizeof(VIP_DESCRIPTOR_SEGMENT) == 16);
	CHECK(sizeof(VIP_DESCRIPTOR) == 64);
	AT(VIP_DESCRIPTOR, DS, 32);
	CHECK(VIP_DESCRIPTOR_ALIGNMENT == 64);
	CHECK(sizeof(VIP_MEM_HANDLE) == 4);
	AT(VIP_NET_ADDRESS, DiscriminatorLen, 2);
	AT(VIP_NET_ADDRESS, HostAddress, 4);
	CHECK(sizeof(VIP_NET_ADDRESS) == 8);

	/* Structures of the library, as the reference's types lay them out on a 64-bit machine. */
	CHECK(sizeof(VIP_VI_ATTRIBUTES) == 40);
	AT(VIP_VI_ATTRIBUTES, MaxTransferSize, 8);
	AT(VIP_VI_ATTRIBUTES, Ptag, 24);
	AT(VIP_VI_ATTRIBUTES, EnableRdmaRead, 36);
	CHECK(sizeof(VIP_MEM_ATTRIBUTES) == 16);
	CHECK(sizeof(VIP_NIC_ATTRIBUTES) == 200);
	AT(VIP_NIC_ATTRIBUTES, HardwareVersion, 64);
	AT(VIP_NIC_ATTRIBUTES, LocalNicAddress, 88);
	AT(VIP_NIC_ATTRIBUTES, MaxDiscriminatorLen, 100);
	AT(VIP_NIC_ATTRIBUTES, MaxTransferSize, 168);
	AT(VIP_NIC_ATTRIBUTES, RDMAReadSupport, 194);
	CHECK(sizeof(VIP_ERROR_DESCRIPTOR) == 48);
	AT(VIP_ERROR_DESCRIPTOR, OpCode, 32);
	AT(VIP_ERROR_DESCRIPTOR, ErrorCode, 44);
	CHECK(sizeof(VIP_AUTODISCOVERY_LIST) == 24);

	CHECK(VIP_STATE_IDLE == 0 && VIP_STATE_CONNECTED == 1 && VIP_STATE_CONNECT_PENDING == 2 && VIP_STATE_ERROR == 3);
	CHECK(VIP_NO_MATCH == 14 && VIP_NOT_REACHABLE == 15 && VIP_ERROR_NOT_SUPPORTED == 16);
	CHECK(VIP_ERROR_CATASTROPHIC == 10 && VIP_RESOURCE_DESCRIPTOR == 3);
	CHECK(VIP_STATUS_ERROR_MASK == 0x1fe && VIP_STATUS_OP_MASK == 0x70000);
}
