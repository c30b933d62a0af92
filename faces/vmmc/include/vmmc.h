/*
 * vmmc.h - virtual memory-mapped communication (VMMC-2) as libvmmc.so of EMP has it.
 *
 * Written for EMP from descriptions of the model. No public text has the names that VMMC-2 gave to its calls, nor the values of
 * its errors: names, values and layouts in this file are EMP's own, and no program written elsewhere can rely on them. What each
 * item does is taken from its source:
 *
 *   [SBL]   the manual pages of the SHRIMP Base Library (Princeton, 1995), the first VMMC, whose calls VMMC-2 kept in shape
 *   [VMMC]  the overview pages of VMMC and VMMC-2 at Princeton
 *   [TR]    Princeton TR-581-98, the paper on VMMC-2's reliable data link and dynamic mapping; V... is the item in EMP's list
 *   [V2]    the abstract of the paper on VMMC-2 (1997): transfer redirection
 *   [EMP]   not in any source: what a program needs besides, on Ethernet and in threads
 *
 * Pointers that are passed must be null or valid. Calls may be made by any thread at any time, also by notification handlers
 * unless said otherwise. Calls return VMMC_OK, a positive number where that is said, or a negative error; an error changes nothing
 * unless said otherwise.
 */
#ifndef VMMC_H
#define VMMC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Processes and machines ----
 *
 * [SBL] A process is named by its node and, there, by a number of its own. The number is not the system's process id, but one that
 * the program chooses, so that others know it beforehand and a process that was restarted has it again [EMP].
 * A node number is made of the address of an interface (0x0245 and the four bytes of its IPv4 address) [EMP].
 */
typedef struct vmmc_process {
	uint64_t node;
	uint32_t number; /* 0 to VMMC_PROCESSES - 1 */
	uint32_t zero;   /* unused */
} vmmc_process_t;

#define VMMC_PROCESSES 128
/* In permissions: whatever the node, whatever the number. As a number for vmmc_init: any that is free. */
#define VMMC_ANY_NODE 0
#define VMMC_ANY_PROCESS 0xffffffffU

/* Times are in milliseconds; this is without limit. */
#define VMMC_FOREVER 0xffffffffU

/* ---- Errors ---- [SBL] Negative; 0 is success. The numbers are unknown in any source. */
#define VMMC_OK 0
#define VMMC_E_NOT_INITIALIZED (-1) /* any call before vmmc_init, or after vmmc_finalize */
#define VMMC_E_INITIALIZED (-2)     /* vmmc_init a second time */
#define VMMC_E_ARGUMENT (-3)        /* null where that is not allowed, no bytes, a number out of range */
#define VMMC_E_SETTINGS (-4)        /* an EMP_ variable has a value that makes no sense: a line on standard error says which */
#define VMMC_E_NO_NETWORK (-5)      /* no interface is up that can be used */
#define VMMC_E_PROCESS_IN_USE (-6)  /* another process of this machine has the number, or has all of them */
#define VMMC_E_NO_RESOURCES (-7)    /* memory, descriptors, or a table is used up */
#define VMMC_E_HOST_NOT_FOUND (-8)  /* nobody knows the name, or the node */
#define VMMC_E_ID_IN_USE (-9)       /* this process exports a buffer of this id already */
#define VMMC_E_NO_BUFFER (-10)      /* this process exports no buffer of this id */
#define VMMC_E_OVERLAP (-11)        /* part of the memory is exported, or is where something is redirected to, already */
#define VMMC_E_PERMISSION (-12)     /* the exporter does not permit this process to import the buffer */
#define VMMC_E_TIMEOUT (-13)        /* the time is over */
#define VMMC_E_PROXY (-14)          /* not an address of a buffer that is imported (any more) */
#define VMMC_E_BOUNDS (-15)         /* not all of it lies in the buffer */
#define VMMC_E_PENDING (-16)        /* not over yet */
#define VMMC_E_STALE (-17)          /* the buffer is not exported any more, or was exported anew: import it again */
#define VMMC_E_RESTARTED (-18)      /* the exporter was restarted: import its buffers again */
#define VMMC_E_UNREACHABLE (-19)    /* nothing is heard of the exporter: import its buffers again when it is back */
#define VMMC_E_CLOSED (-20)         /* the exporter has ended */
#define VMMC_E_REQUEST (-21)        /* not a send that was started and whose end was not asked for yet */
#define VMMC_E_IN_HANDLER (-22)     /* not possible within a notification handler */
#define VMMC_E_FINALIZED (-23)      /* the library was finalized by another thread meanwhile */
#define VMMC_E_NOT_REDIRECTED (-24) /* no redirection begins there */
#define VMMC_E_REDIRECTED (-25)     /* part of it is redirected already */
#define VMMC_E_BROKEN (-26)         /* EMP has failed in this process (a line says how), or this is the child of a fork */

/* [EMP] The text of an error. */
const char *vmmc_error(int error);

/* ---- The library ---- */

/* [EMP] Makes this process one that can export and import, by this number on this machine; reads the EMP_ variables of the
 * environment. VMMC had a daemon for that.
 * Errors: INITIALIZED, ARGUMENT, SETTINGS, NO_NETWORK, PROCESS_IN_USE, NO_RESOURCES. */
int vmmc_init(uint32_t number);

/* [EMP] Takes back all buffers and ends all imports; what was sent is waited for as long as EMP_LINGER says. Calls of other
 * threads that wait return VMMC_E_FINALIZED. Errors: NOT_INITIALIZED, IN_HANDLER. */
int vmmc_finalize(void);

/* [EMP] Who this process is. Errors: ARGUMENT. */
int vmmc_self(vmmc_process_t *self);

/* [EMP] The node of a machine, by its name (EMP_NAME there, or what the system resolves) or IPv4 address.
 * Errors: ARGUMENT, HOST_NOT_FOUND. */
int vmmc_node(const char *host, uint64_t *node);

/* [EMP] The name of a machine, cut to `room` bytes with its zero. Errors: ARGUMENT, HOST_NOT_FOUND. */
int vmmc_host(uint64_t node, char *host, size_t room);

/* [SBL: Hosts] This machine's node and those of other processes' that were met so far: as many as there is room for; `count` is how
 * many there are. Errors: ARGUMENT. */
int vmmc_hosts(uint64_t *nodes, uint32_t room, uint32_t *count);

/* [SBL: PageSize, WordSize] 4096 and 4. Nothing in EMP depends on them: buffers may begin and end at any byte. */
size_t vmmc_page_size(void);
size_t vmmc_word_size(void);

/* ---- Exporting ---- */

/* [SBL: SendMsgWithNotify; what a handler is told is unknown, and EMP's choice] A send with notification has arrived. */
typedef struct vmmc_notification {
	vmmc_process_t from;
	uint32_t id;     /* of the buffer */
	uint32_t zero;   /* unused */
	uint64_t offset; /* where in the buffer */
	uint64_t bytes;
} vmmc_notification_t;
typedef void (*vmmc_handler_t)(const vmmc_notification_t *notification, void *context);

/* Bytes of a buffer are fewer than this [EMP]. */
#define VMMC_BUFFER_MAX ((uint64_t)1 << 38)

/* [SBL: ExportRecvBuf] Makes memory that is there already importable, under an id that is unique in this process. Allocates
 * nothing; exported buffers do not overlap. From now on others may write to it at any time, until vmmc_unexport or vmmc_finalize
 * has returned. `handler` (or null) is called for sends with notification.
 * [VMMC] Permission: processes on the list may import it, either half of an entry may be "any"; without a list, nobody.
 * [TR V29] Each export is another generation of its id: what was sent to an earlier one never gets into a later one.
 * Errors: ARGUMENT, ID_IN_USE, OVERLAP, NO_RESOURCES. */
int vmmc_export(void *buffer, size_t bytes, uint32_t id, const vmmc_process_t *importers, uint32_t count, vmmc_handler_t handler,
		void *context);

/* [EMP] Another list of permissions, for imports from now on. Errors: NO_BUFFER, ARGUMENT. */
int vmmc_permit(uint32_t id, const vmmc_process_t *importers, uint32_t count);

/* [EMP; the call is in VMMC-2, its text is not public] Takes a buffer back. Once this returns, nothing is written to it, nor to
 * where parts of it were redirected, and its handler does not run (unless this is called in it). Imports of it are void:
 * sends there fail with VMMC_E_STALE. Errors: NO_BUFFER. */
int vmmc_unexport(uint32_t id);

/* ---- Importing ---- */

/* [SBL: "proxy"] An address that stands for one byte of another process's buffer, in this process's destination space: what is
 * at proxy + n stands for is n bytes on. There is no memory: reading or writing it ends the process. */
typedef char *vmmc_proxy_t;

/* [SBL: ImportRecvBuf] Imports a buffer: returns when it was exported, which may be later than this call, and the exporter's process
 * may be started later too. The time-out is EMP's. `bytes` (or null) gets the size of the buffer.
 * Errors: ARGUMENT, PERMISSION, TIMEOUT, NO_RESOURCES, FINALIZED. */
int vmmc_import(const vmmc_process_t *from, uint32_t id, uint32_t timeout, vmmc_proxy_t *proxy, uint64_t *bytes);

/* [SBL: ImportRecvBufReq] Begins to import, and returns. `*bytes` is 0 until that is over: then it is the size of the buffer, or a
 * negative error (PERMISSION). It is written by another thread: read it as something that changes (`volatile` will do).
 * It must be valid until then, or until vmmc_unimport, by which the import is given up.
 * Errors: ARGUMENT, NO_RESOURCES. */
int vmmc_import_start(const vmmc_process_t *from, uint32_t id, vmmc_proxy_t *proxy, volatile int64_t *bytes);

/* [EMP; as vmmc_unexport] Ends an import, or gives it up; `proxy` may be any address of it. What was sent there goes on.
 * Errors: PROXY. */
int vmmc_unimport(vmmc_proxy_t proxy);

/* [EMP] What an import is. */
typedef struct vmmc_import_info {
	vmmc_process_t from;
	uint32_t id;
	uint32_t generation; /* [TR V29] not 0, another one each time that the exporter exports; 0 unless state is VMMC_OK */
	uint64_t bytes;      /* size of the buffer; 0 unless state is VMMC_OK */
	int state;           /* VMMC_OK; VMMC_E_PENDING; or the error that sends there end with */
	int zero;            /* unused */
} vmmc_import_info_t;

/* Errors: PROXY, ARGUMENT. */
int vmmc_import_info(vmmc_proxy_t proxy, vmmc_import_info_t *info);

/* ---- Sending ----
 *
 * [SBL: SendMsg] Deliberate update: bytes of this process's memory go to where `to` stands for; all of that lies in one imported
 * buffer. Nobody at the receiver has a part in it, and nothing tells the sender that they have arrived.
 * Between one sender and one receiver sends arrive in order: of a later one nothing is seen before all of an earlier one is. The
 * bytes of one send may arrive in any order: what says that it is there is a later send, or a notification [EMP].
 *
 * [TR V6] What the network loses is sent again. [TR V7] If that does not help for EMP_TIMEOUT, the process is unreachable: all
 * imports from it are void, and the next send there says so (UNREACHABLE; RESTARTED and CLOSED if that was it). Nobody knows
 * which of the sends before it have arrived. The application ends the import, and imports again.
 *
 * Errors of all three: ARGUMENT, PROXY, BOUNDS, PENDING (the import is not over), NO_RESOURCES, FINALIZED; and STALE,
 * RESTARTED, UNREACHABLE, CLOSED, which may be of an earlier send. */

/* Returns when the source may be used again [SBL, TR V8]: at once, if there is room for a copy and it is short; else when it is there.
 * Waits if there is no room [TR V16]. */
int vmmc_send(const void *from, vmmc_proxy_t to, size_t bytes);

/* [SBL: SendMsgWithNotify] The same; once the bytes are there, the handler of the buffer runs, if it has one. No bytes will do. */
int vmmc_send_notify(const void *from, vmmc_proxy_t to, size_t bytes);

/* A send that goes on by itself; 0: it is over, and the source may be used again. */
typedef uint64_t vmmc_send_t;

/* [VMMC-2 has asynchronous sends; the call is EMP's] Begins to send. The source must stay as it is until vmmc_send_test or
 * vmmc_send_wait has said that the send is over, or `*request` is 0. */
int vmmc_send_start(const void *from, vmmc_proxy_t to, size_t bytes, int notify, vmmc_send_t *request);

/* [EMP] How it ended, and `*request` is 0; PENDING or TIMEOUT: it goes on.
 * Errors: REQUEST; or that of the send. Of a request that is 0: VMMC_OK. */
int vmmc_send_test(vmmc_send_t *request);
int vmmc_send_wait(vmmc_send_t *request, uint32_t timeout);

/* [EMP] Waits until everything that this process has sent is there, or has failed. Errors: TIMEOUT. */
int vmmc_drain(uint32_t timeout);

/* ---- Notifications ----
 *
 * [SBL] Handlers run one at a time. They run in a thread of the library, in which signals are blocked, or in vmmc_poll [EMP], in
 * the order in which their sender sent. */

/* [EMP] Makes progress and runs handlers that are due; returns how many. Not needed: there is progress without it, but a program
 * that waits for memory to change sees it some 5 microseconds sooner if it calls this while it waits. */
int vmmc_poll(void);

/* [SBL: BlockNotifications] Handlers wait until as many vmmc_unblock_notifications were called. Once this returns, none runs but
 * the one that calls it. Notifications that wait are kept, and hold back their senders when there are many. */
int vmmc_block_notifications(void);

/* [SBL: UnblockNotifications] Returns 1 if this has unblocked them, 0 if they were not blocked or are blocked still.
 * Errors: IN_HANDLER, in a handler, during which they are blocked, if nothing else blocks them. */
int vmmc_unblock_notifications(void);

/* ---- Transfer redirection ---- [V2, VMMC; TR V35 for what it is used for. Its call is not public, and EMP's] */

/* From now on what comes to the part of an exported buffer from `offset` on goes to `to` instead, without a copy. What has come
 * there before, and was not taken (vmmc_taken), is copied, and counted in `copied` (or null). So a receiver may export a default
 * buffer, which senders know, and name the place that it wants its data at when it knows it. The sender has no part in it.
 * Errors: ARGUMENT, NO_BUFFER, BOUNDS, OVERLAP, REDIRECTED. */
int vmmc_redirect(uint32_t id, uint64_t offset, void *to, size_t bytes, uint64_t *copied);

/* Ends the redirection that begins at `offset`: once this returns, `to` is the application's, and what comes later comes to the
 * buffer. Errors: NO_BUFFER, NOT_REDIRECTED. */
int vmmc_restore(uint32_t id, uint64_t offset);

/* What has come to this part of the buffer was taken by the application: a later redirection does not copy it.
 * Errors: NO_BUFFER, BOUNDS. */
int vmmc_taken(uint32_t id, uint64_t offset, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
