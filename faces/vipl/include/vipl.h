/*
 * vipl.h - VIPL, the programming interface of the Virtual Interface Architecture 1.0, as libvipl.so of EMP has it.
 *
 * Written for EMP from a description of the interface: names, values and layouts are those that programs for VIPL are
 * built with, so that programs compile and link unchanged. What is marked "unknown" is not known from any reference at
 * hand; it is EMP's choice, and no program should rely on it.
 *
 * Calls may be made by any thread at any time (ThreadSafe says so). Handles are checked: a wrong or old one is
 * VIP_INVALID_PARAMETER. Other pointers that are passed must be null or valid. Times are in milliseconds.
 *
 * Integers are those of the reference: VIP_ULONG is an unsigned long. How libraries for 64-bit machines had it is unknown.
 *
 * Programs for Giganet's cLAN find its names here as well: types of events and handlers, Control and Data[] of a descriptor, and
 * the calls at the end. With VIPL_GIGANET defined, what was declared otherwise there is declared so: ADAddrArray.
 */
#ifndef VIPL_H
#define VIPL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void *VIP_PVOID;
typedef int VIP_BOOLEAN;
typedef char VIP_CHAR;
typedef unsigned char VIP_UCHAR;
typedef short VIP_SHORT;
typedef unsigned short VIP_USHORT;
typedef long VIP_LONG;
typedef unsigned long VIP_ULONG;
typedef uint64_t VIP_UINT64;
typedef uint32_t VIP_UINT32;
typedef uint16_t VIP_UINT16;
typedef uint8_t VIP_UINT8;

#define VIP_TRUE 1
#define VIP_FALSE 0

/* A time-out that never ends. All ones in 32 or in 64 bits are taken so. */
#define VIP_INFINITE ((VIP_ULONG)0xffffffff)

/* Not defined by VIA 1.0. Two VIs that connect must have the same; null is the only one that EMP has. */
typedef VIP_PVOID VIP_QOS;

/* Opaque; null is none. A null VIP_PROTECTION_HANDLE is the NIC's default tag: it goes with any, on either side. */
typedef VIP_PVOID VIP_NIC_HANDLE;
typedef VIP_PVOID VIP_VI_HANDLE;
typedef VIP_PVOID VIP_PROTECTION_HANDLE;
typedef VIP_PVOID VIP_CONN_HANDLE;
typedef VIP_PVOID VIP_CQ_HANDLE;
/* Giganet's, for tags that messages have there. */
typedef VIP_PVOID VIP_EVENT_HANDLE;
/* Of registered memory; in descriptors. */
typedef VIP_UINT32 VIP_MEM_HANDLE;

/*
 * The address of a connection point: that of a NIC (HostAddressLen bytes), and right behind it the discriminator
 * (DiscriminatorLen bytes), by which a machine's connection points are told apart. Callers provide room for both.
 * The padding is the reference's.
 */
typedef struct {
	VIP_UINT16 HostAddressLen;
	VIP_UINT16 DiscriminatorLen;
	VIP_UINT8 HostAddress[1];
	char padding[3];
} VIP_NET_ADDRESS;

/* One, or several where it says what is supported. */
typedef VIP_USHORT VIP_RELIABILITY_LEVEL;
/* Messages may be lost; an error ends its descriptor and nothing else. */
#define VIP_SERVICE_UNRELIABLE 0x01
/* Exactly once and in order; an error ends the connection. A send is complete when the provider has taken its data. */
#define VIP_SERVICE_RELIABLE_DELIVERY 0x02
/* The same, and a send is complete when its data is in the memory of a receive of the other side. */
#define VIP_SERVICE_RELIABLE_RECEPTION 0x04
/* All three; and two that Giganet's cards may say they have, and EMP does not. */
#define VIP_BASE_SERVICES 0x07
#define VIP_SERVICE_ACK 0x4000
#define VIP_SERVICE_DFC 0x8000

typedef struct {
	VIP_CHAR Name[64];
	VIP_ULONG HardwareVersion;
	VIP_ULONG ProviderVersion;
	VIP_UINT16 NicAddressLen;
	/* Valid until the NIC is closed. */
	const VIP_UINT8 *LocalNicAddress;
	VIP_BOOLEAN ThreadSafe;
	VIP_UINT16 MaxDiscriminatorLen;
	VIP_ULONG MaxRegisterBytes;
	VIP_ULONG MaxRegisterRegions;
	VIP_ULONG MaxRegisterBlockBytes;
	VIP_ULONG MaxVI;
	VIP_ULONG MaxDescriptorsPerQueue;
	/* Data segments; an address segment comes on top. */
	VIP_ULONG MaxSegmentsPerDesc;
	VIP_ULONG MaxCQ;
	VIP_ULONG MaxCQEntries;
	VIP_ULONG MaxTransferSize;
	VIP_ULONG NativeMTU;
	VIP_ULONG MaxPtags;
	VIP_RELIABILITY_LEVEL ReliabilityLevelSupport;
	/* Levels at which RDMA read is supported. */
	VIP_RELIABILITY_LEVEL RDMAReadSupport;
} VIP_NIC_ATTRIBUTES;

typedef enum {
	VIP_STATE_IDLE = 0,
	VIP_STATE_CONNECTED = 1,
	VIP_STATE_CONNECT_PENDING = 2,
	VIP_STATE_ERROR = 3
} VIP_VI_STATE;

typedef struct {
	VIP_RELIABILITY_LEVEL ReliabilityLevel;
	VIP_ULONG MaxTransferSize;
	VIP_QOS QoS;
	/* In the attributes of a remote VI: null. */
	VIP_PROTECTION_HANDLE Ptag;
	/* Whether the other side may write to and read from memory of this tag. */
	VIP_BOOLEAN EnableRdmaWrite;
	VIP_BOOLEAN EnableRdmaRead;
} VIP_VI_ATTRIBUTES;

typedef struct _VIP_MEM_ATTRIBUTES {
	VIP_PROTECTION_HANDLE Ptag;
	VIP_BOOLEAN EnableRdmaWrite;
	VIP_BOOLEAN EnableRdmaRead;
} VIP_MEM_ATTRIBUTES;

/*
 * Descriptors: 32 bytes of control, for RDMA one address segment, then data segments, each of 16 bytes. They lie in
 * registered memory at multiples of VIP_DESCRIPTOR_ALIGNMENT bytes, and belong to the library from the post until they
 * were returned as done.
 */
#define VIP_DESCRIPTOR_ALIGNMENT 64

struct _VIP_DESCRIPTOR;

typedef union {
	VIP_UINT64 AddressBits;
	VIP_PVOID Address;
	struct _VIP_DESCRIPTOR *Descriptor;
} VIP_PVOID64;

/* What the library writes is volatile: programs poll it. */
typedef struct {
	/* For the owner's use: the library does not look at these two. */
	VIP_PVOID64 Next;
	VIP_MEM_HANDLE NextHandle;
	/* Segments that follow, the address segment with them. */
	VIP_UINT16 SegCount;
	VIP_UINT16 Control;
	VIP_UINT32 Reserved;
	volatile VIP_UINT32 ImmediateData;
	/*
	 * Receives that are done: bytes received, or written by the RDMA write that consumed it (unknown). Sends: the bytes of
	 * the data segments count; whether another value here is an error is unknown, and it is none.
	 */
	volatile VIP_UINT32 Length;
	/* Written last, so a program may wait for VIP_STATUS_DONE here. */
	volatile VIP_UINT32 Status;
} VIP_CONTROL_SEGMENT;

/* The other side's memory. */
typedef struct {
	VIP_PVOID64 Data;
	VIP_MEM_HANDLE Handle;
	VIP_UINT32 Reserved;
} VIP_ADDRESS_SEGMENT;

typedef struct {
	VIP_PVOID64 Data;
	VIP_MEM_HANDLE Handle;
	VIP_UINT32 Length;
} VIP_DATA_SEGMENT;

typedef union {
	VIP_ADDRESS_SEGMENT Remote;
	VIP_DATA_SEGMENT Local;
} VIP_DESCRIPTOR_SEGMENT;

#ifdef __GNUC__
#define VIP_ANONYMOUS __extension__
#else
#define VIP_ANONYMOUS
#endif

/*
 * With the segments that most have; there may be more. Giganet's header has the other names of both parts, unless VIPL095 is
 * defined; here they are the same whether it is or not.
 */
typedef struct _VIP_DESCRIPTOR {
	VIP_ANONYMOUS union {
		VIP_CONTROL_SEGMENT CS;
		VIP_CONTROL_SEGMENT Control;
	};
	VIP_ANONYMOUS union {
		VIP_DESCRIPTOR_SEGMENT DS[2];
		VIP_DATA_SEGMENT Data[2];
	};
} VIP_DESCRIPTOR;

/* Control. */
#define VIP_CONTROL_OP_SENDRECV 0x0000
#define VIP_CONTROL_OP_RDMAWRITE 0x0001
#define VIP_CONTROL_OP_RDMAREAD 0x0002
#define VIP_CONTROL_OP_RESERVED 0x0003
#define VIP_CONTROL_OP_MASK 0x0003
#define VIP_CONTROL_IMMEDIATE 0x0004
/* Not before all earlier RDMA reads of this VI are done. */
#define VIP_CONTROL_QFENCE 0x0008
#define VIP_CONTROL_RESERVED 0xFFF0

/* Status. */
#define VIP_STATUS_DONE 0x00000001
#define VIP_STATUS_FORMAT_ERROR 0x00000002
#define VIP_STATUS_PROTECTION_ERROR 0x00000004
#define VIP_STATUS_LENGTH_ERROR 0x00000008
#define VIP_STATUS_PARTIAL_ERROR 0x00000010
#define VIP_STATUS_DESC_FLUSHED_ERROR 0x00000020
#define VIP_STATUS_TRANSPORT_ERROR 0x00000040
#define VIP_STATUS_RDMA_PROT_ERROR 0x00000080
#define VIP_STATUS_REMOTE_DESC_ERROR 0x00000100
#define VIP_STATUS_ERROR_MASK 0x000001FE

#define VIP_STATUS_OP_SEND 0x00000000
#define VIP_STATUS_OP_RECEIVE 0x00010000
#define VIP_STATUS_OP_RDMA_WRITE 0x00020000
/* A receive that was consumed by the other side's RDMA write with immediate data. */
#define VIP_STATUS_OP_REMOTE_RDMA_WRITE 0x00030000
#define VIP_STATUS_OP_RDMA_READ 0x00040000
#define VIP_STATUS_OP_MASK 0x00070000
#define VIP_STATUS_IMMEDIATE 0x00080000
#define VIP_STATUS_RESERVED 0xFFF0FE00

/* What calls return. The last two are not in VIA 1.0 but in libraries that followed it. */
typedef enum {
	VIP_SUCCESS = 0,
	VIP_NOT_DONE = 1,
	VIP_INVALID_PARAMETER = 2,
	VIP_ERROR_RESOURCE = 3,
	VIP_TIMEOUT = 4,
	VIP_REJECT = 5,
	VIP_INVALID_RELIABILITY_LEVEL = 6,
	VIP_INVALID_MTU = 7,
	VIP_INVALID_QOS = 8,
	VIP_INVALID_PTAG = 9,
	VIP_INVALID_RDMAREAD = 10,
	VIP_DESCRIPTOR_ERROR = 11,
	VIP_INVALID_STATE = 12,
	VIP_ERROR_NAMESERVICE = 13,
	VIP_NO_MATCH = 14,
	VIP_NOT_REACHABLE = 15,
	VIP_ERROR_NOT_SUPPORTED = 16,
	VIP_ERROR = VIP_DESCRIPTOR_ERROR
} VIP_RETURN;
/* For programs that define it where a library does not have it. */
#define VIP_ERROR_NOT_SUPPORTED VIP_ERROR_NOT_SUPPORTED

/* Errors that no call returns. EMP tells of those marked with a star; what the others stand for does not happen here. */
typedef enum _VIP_ERROR_CODE {
	VIP_ERROR_POST_DESC = 0,      /* * a descriptor was wrong */
	VIP_ERROR_CONN_LOST = 1,      /* * the other side has disconnected, or is gone */
	VIP_ERROR_RECVQ_EMPTY = 2,    /* * a message came and no receive was posted */
	VIP_ERROR_VI_OVERRUN = 3,
	VIP_ERROR_RDMAW_PROT = 4,     /* * an RDMA write of the other side was refused */
	VIP_ERROR_RDMAW_DATA = 5,
	VIP_ERROR_RDMAW_ABORT = 6,
	VIP_ERROR_RDMAR_PROT = 7,     /* * an RDMA read of the other side was refused */
	VIP_ERROR_COMP_PROT = 8,
	VIP_ERROR_RDMA_TRANSPORT = 9,
	VIP_ERROR_CATASTROPHIC = 10
} VIP_ERROR_CODE;

typedef enum _VIP_RESOURCE_CODE {
	VIP_RESOURCE_NIC = 0,
	VIP_RESOURCE_VI = 1,
	VIP_RESOURCE_CQ = 2,
	VIP_RESOURCE_DESCRIPTOR = 3
} VIP_RESOURCE_CODE;

typedef struct _VIP_ERROR_DESCRIPTOR {
	VIP_NIC_HANDLE NicHandle;
	VIP_VI_HANDLE ViHandle;
	VIP_CQ_HANDLE CQHandle;
	/* The descriptor that ended so, if there is one; not to be written to. */
	VIP_DESCRIPTOR *DescriptorPtr;
	/* VIP_CONTROL_OP_... of the descriptor (unknown). */
	VIP_ULONG OpCode;
	VIP_RESOURCE_CODE ResourceCode;
	VIP_ERROR_CODE ErrorCode;
} VIP_ERROR_DESCRIPTOR;

/* What VipQuerySystemManagementInfo() is asked for. */
#define VIP_SMI_AUTODISCOVERY ((VIP_ULONG)1)

/* Who allocates what it points to is unknown: VIP_ERROR_NOT_SUPPORTED. */
typedef struct {
	VIP_ULONG NumberOfHops;
#ifdef VIPL_GIGANET
	VIP_NET_ADDRESS *ADAddrArray;
#else
	VIP_NET_ADDRESS **ADAddrArray;
#endif
	VIP_ULONG NumAdAddrs;
} VIP_AUTODISCOVERY_LIST;

/*
 * NICs. A name is that of an interface ("eth0"), also as "/dev/eth0" or "/dev/via_eth0"; "nic0", "nic1", ..., also as
 * "/dev/clanvi0", are the interfaces that EMP_INTERFACE names, or the best ones that there are; null, "", "VINIC" and
 * "/dev/via_lo" are the first of these. Closing one closes all that was made of it (whether that should be refused is unknown).
 */
VIP_RETURN VipOpenNic(const VIP_CHAR *DeviceName, VIP_NIC_HANDLE *NicHandle);
VIP_RETURN VipCloseNic(VIP_NIC_HANDLE NicHandle);
VIP_RETURN VipQueryNic(VIP_NIC_HANDLE NicHandle, VIP_NIC_ATTRIBUTES *NicAttribs);

/*
 * Memory. A tag, or a completion queue, that is in use is not destroyed: VIP_ERROR_RESOURCE. VipRegisterMem() takes null
 * attributes: the default tag, and no RDMA. Memory of the default tag that may be written or read by RDMA is so by the other
 * sides of VIs of that tag.
 */
VIP_RETURN VipCreatePtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE *Ptag);
VIP_RETURN VipDestroyPtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE Ptag);
VIP_RETURN VipRegisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress, VIP_ULONG Length,
    VIP_MEM_ATTRIBUTES *MemAttribs, VIP_MEM_HANDLE *MemoryHandle);
/* Descriptors under way in the memory end with VIP_STATUS_PROTECTION_ERROR; once this returns it is used no more. */
VIP_RETURN VipDeregisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
    VIP_MEM_HANDLE MemoryHandle);
VIP_RETURN VipSetMemAttributes(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address,
    VIP_MEM_HANDLE MemHandle, VIP_MEM_ATTRIBUTES *MemAttribs);
VIP_RETURN VipQueryMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_MEM_HANDLE MemHandle,
    VIP_MEM_ATTRIBUTES *MemAttribs);

/* VIs. Destroyed only when idle (else VIP_INVALID_STATE) with both queues empty (else VIP_ERROR_RESOURCE). */
VIP_RETURN VipCreateVi(VIP_NIC_HANDLE NicHandle, VIP_VI_ATTRIBUTES *ViAttribs,
    VIP_CQ_HANDLE SendCQHandle, VIP_CQ_HANDLE RecvCQHandle, VIP_VI_HANDLE *ViHandle);
VIP_RETURN VipDestroyVi(VIP_VI_HANDLE ViHandle);
VIP_RETURN VipSetViAttributes(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *ViAttribs);
VIP_RETURN VipQueryVi(VIP_VI_HANDLE ViHandle, VIP_VI_STATE *State, VIP_VI_ATTRIBUTES *ViAttribs,
    VIP_BOOLEAN *ViSendQEmpty, VIP_BOOLEAN *ViRecvQEmpty);

/*
 * Connecting, client and server. RemoteAddr takes an address as long as this NIC's may be (NicAddressLen and
 * MaxDiscriminatorLen). VIP_NO_MATCH: nobody waits at the remote address now.
 */
VIP_RETURN VipConnectWait(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *LocalAddr, VIP_ULONG Timeout,
    VIP_NET_ADDRESS *RemoteAddr, VIP_VI_ATTRIBUTES *RemoteViAttribs, VIP_CONN_HANDLE *ConnHandle);
/* VIP_TIMEOUT: the client has gone meanwhile. If it fails otherwise, the connection can still be accepted or rejected. */
VIP_RETURN VipConnectAccept(VIP_CONN_HANDLE ConnHandle, VIP_VI_HANDLE ViHandle);
VIP_RETURN VipConnectReject(VIP_CONN_HANDLE ConnHandle);
VIP_RETURN VipConnectRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
    VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout, VIP_VI_ATTRIBUTES *RemoteViAttribs);
/* All descriptors end, flushed if need be. A VI that lost its connection becomes idle by this. */
VIP_RETURN VipDisconnect(VIP_VI_HANDLE ViHandle);

/* Connecting, peer to peer: both request, each with the other's address. */
VIP_RETURN VipConnectPeerRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
    VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout);
VIP_RETURN VipConnectPeerDone(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs);
VIP_RETURN VipConnectPeerWait(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs);

/*
 * Descriptors. Those posted to send while the VI is not connected, and all in the error state, end flushed.
 * VIP_DESCRIPTOR_ERROR with a descriptor: it ended in error, which its status says; with null: the queue is empty.
 * A receive's segment may run past its memory, if no message does: one that does ends it with VIP_STATUS_PROTECTION_ERROR.
 */
VIP_RETURN VipPostSend(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
    VIP_MEM_HANDLE MemoryHandle);
VIP_RETURN VipSendDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr);
VIP_RETURN VipSendWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, VIP_DESCRIPTOR **DescriptorPtr);
VIP_RETURN VipPostRecv(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
    VIP_MEM_HANDLE MemoryHandle);
VIP_RETURN VipRecvDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr);
VIP_RETURN VipRecvWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, VIP_DESCRIPTOR **DescriptorPtr);

/* Completion queues: which queue has a descriptor that is done; the descriptor itself comes from VipSend/RecvDone(). */
VIP_RETURN VipCreateCQ(VIP_NIC_HANDLE NicHandle, VIP_ULONG EntryCount, VIP_CQ_HANDLE *CQHandle);
VIP_RETURN VipDestroyCQ(VIP_CQ_HANDLE CQHandle);
VIP_RETURN VipResizeCQ(VIP_CQ_HANDLE CQHandle, VIP_ULONG EntryCount);
VIP_RETURN VipCQDone(VIP_CQ_HANDLE CQHandle, VIP_VI_HANDLE *ViHandle, VIP_BOOLEAN *RecvQueue);
VIP_RETURN VipCQWait(VIP_CQ_HANDLE CQHandle, VIP_ULONG Timeout, VIP_VI_HANDLE *ViHandle,
    VIP_BOOLEAN *RecvQueue);

/*
 * Handlers are called by a thread of the library's, once for each registration, in the order of these, and may call the
 * library, but not to close the NIC. What a handler is told of was taken, as Done would. A queue that has a
 * completion queue has no handlers of its own: VIP_INVALID_PARAMETER (unknown).
 */
typedef void (*VIP_VI_CALLBACK)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle, VIP_VI_HANDLE ViHandle,
    VIP_DESCRIPTOR *DescriptorPtr);
typedef void (*VIP_CQ_CALLBACK)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle, VIP_VI_HANDLE ViHandle,
    VIP_BOOLEAN RecvQueue);
typedef void (*VIP_ERROR_HANDLER)(VIP_PVOID Context, VIP_ERROR_DESCRIPTOR *ErrorDesc);
VIP_RETURN VipSendNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler);
VIP_RETURN VipRecvNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler);
VIP_RETURN VipCQNotify(VIP_CQ_HANDLE CQHandle, VIP_PVOID Context, VIP_CQ_CALLBACK Handler);
/*
 * Null: lines in the log (EMP_LOG), as before the first call. Once this returns, the handler before does not run any more, unless
 * it has called this. Of a VI that was destroyed nothing is told.
 */
VIP_RETURN VipErrorCallback(VIP_NIC_HANDLE NicHandle, VIP_PVOID Context, VIP_ERROR_HANDLER Handler);

/* VIP_ERROR_NOT_SUPPORTED, whatever is asked for. */
VIP_RETURN VipQuerySystemManagementInfo(VIP_NIC_HANDLE NicHandle, VIP_ULONG InfoType,
    VIP_PVOID SysManInfo);

/*
 * Names: of machines (EMP_NAME), of the system's resolver, IPv4 addresses as text. What NSInitInfo points to is unknown;
 * it is not looked at. The address is returned without a discriminator. NameLen: room, and then the length with its end.
 */
VIP_RETURN VipNSInit(VIP_NIC_HANDLE NicHandle, VIP_PVOID NSInitInfo);
VIP_RETURN VipNSGetHostByName(VIP_NIC_HANDLE NicHandle, VIP_CHAR *Name, VIP_NET_ADDRESS *Address,
    VIP_ULONG NameIndex);
VIP_RETURN VipNSGetHostByAddr(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *Address, VIP_CHAR *Name,
    VIP_ULONG *NameLen);
VIP_RETURN VipNSShutdown(VIP_NIC_HANDLE NicHandle);

/* What Giganet's library has beyond VIA. A pointer of the program's for each VI; null: none was set, or there is no such VI. */
VIP_PVOID VipGetUserData(VIP_VI_HANDLE ViHandle);
void VipSetUserData(VIP_VI_HANDLE ViHandle, VIP_PVOID Data);
/* Messages of EMP's have no tags: VIP_ERROR_NOT_SUPPORTED. */
VIP_RETURN VipAddTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE *Event, VIP_ULONG Tag, VIP_ULONG Priority);
VIP_RETURN VipRemoveTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE Event, VIP_ULONG Tag);
/* Sends are posted at once; those that there was no room for are tried again. SendsDeferred: whether any are left. */
VIP_RETURN VipPostDeferredSends(VIP_VI_HANDLE ViHandle, VIP_BOOLEAN EnableInterrupt, VIP_BOOLEAN *SendsDeferred);

#ifdef __cplusplus
}
#endif

#endif
