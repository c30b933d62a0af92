-- EMP, Ethernet Message Passing: a dissector for Wireshark and tshark (4.0 and newer), after SPEC.md, part I.
--
--   tshark -X lua_script:emp.lua -r FILE.pcapng          or copy it into Wireshark's folder of personal Lua plugins
--
-- Frames are found by EtherType 0x88B5, UDP port 51966, and on other UDP ports by what they look like (preferences). Nodes, epochs,
-- trains, pulled blocks and answers are followed from frame to frame. Every read is bounded by what was captured.

local emp = Proto("emp", "Ethernet Message Passing")

local HEADER = 32
local KINDS = {
    "hello", "hello-reply", "message", "data", "ack", "not-ready", "pull", "block", "done", "close", "put", "get", "atomic", "slice", "skip",
}
local NUMBER = {}
for number, name in ipairs(KINDS) do NUMBER[name] = number end
local KIND_NAMES = {}
for number, name in ipairs(KINDS) do
    KIND_NAMES[number] = name
    KIND_NAMES[16 + number] = name .. " with extensions"
end
local SEQUENCED = { message = true, data = true, pull = true, block = true, done = true, put = true, get = true, atomic = true, skip = true }
local BULK = { message = true, data = true, block = true, put = true }
local CAUSES = { "too many messages wait", "no such endpoint yet", "nothing unexpected is stored", "no room in the pool",
    "full of messages that nobody receives" }
local STATUSES = {
    [0] = "complete", "matched", "abandoned", "no such key", "another generation", "out of bounds", "no rights", "memory fault",
}
local FAMILIES = { [1] = "Ethernet", [4] = "IPv4", [6] = "IPv6", [9] = "simulated" }
local FAMILY_BYTES = { [1] = 6, [4] = 6, [6] = 22, [9] = 4 }
local OPERATORS = {
    "min", "max", "sum", "product", "logical or", "logical and", "bitwise or", "bitwise and", "logical exclusive or", "bitwise exclusive or",
    "read", "write", "swap if equal", "swap if not equal", "swap if less or equal", "swap if less", "swap if greater or equal",
    "swap if greater", "swap masked bits",
}
local DATATYPES = {
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "int128", "uint128", "float", "double", "complex float",
    "complex double",
}
local DATATYPE_BYTES = { 1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 4, 8, 8, 16 }
local COMPARES = { [13] = true, [14] = true, [15] = true, [16] = true, [17] = true, [18] = true, [19] = true }
local BITWISE = { [7] = true, [8] = true, [10] = true, [19] = true }
local ORDER = { [1] = true, [2] = true, [15] = true, [16] = true, [17] = true, [18] = true }
local EXTENSIONS = { [0] = "padding", "class", [3] = "seal" }
local RELAYED, RELAY_HEAD, RELAY_HOP = 0x30, 12, 12
local USES = { [0] = "forward", "search", "cut off" }
local HOP_LIMIT = 8

-- ---- fields

local f = {}
local function field(name, make, text, ...)
    f[name] = make("emp." .. name, text, ...)
end
field("version", ProtoField.uint8, "Version", base.DEC, nil, 0xE0)
field("kind", ProtoField.uint8, "Kind", base.DEC, KIND_NAMES, 0x1F)
field("flags", ProtoField.uint8, "Flags", base.HEX)
field("length", ProtoField.uint16, "Length")
field("destination_tag", ProtoField.uint16, "Destination tag", base.HEX)
field("destination_epoch", ProtoField.uint16, "Destination epoch check", base.HEX)
field("source_tag", ProtoField.uint32, "Source tag", base.HEX)
field("source_epoch", ProtoField.uint32, "Source epoch", base.HEX)
field("sequence", ProtoField.uint32, "Sequence number")
field("acknowledge", ProtoField.uint32, "Acknowledge")
field("word", ProtoField.uint32, "Word", base.HEX)
field("checksum", ProtoField.uint32, "Checksum", base.HEX)
field("checksum_status", ProtoField.string, "Checksum status")
-- Flags: those that all kinds have, then the kinds' own.
local COMMON_FLAGS = { { "ACK", 0x01 }, { "ACK-REQUEST", 0x02 }, { "PAYLOAD-UNCHECKED", 0x04 }, { "LAST", 0x08 } }
local OWN_FLAGS = {
    message = { { "LONG", 0x10 }, { "IMMEDIATE", 0x20 }, { "SYNCHRONOUS", 0x40 }, { "VOID", 0x80 } },
    put = { { "LONG", 0x10 }, { "IMMEDIATE", 0x20 } },
    atomic = { { "FETCH", 0x10 } },
    done = { { "REPLY", 0x10 } },
    ack = { { "UNTAKEN", 0x10 }, { "MARKED", 0x20 } },
}
local function flag_field(flag)
    local key = "flags." .. flag[1]:lower():gsub("-", "_")
    if not f[key] then field(key, ProtoField.bool, flag[1], 8, nil, flag[2]) end
    return key
end
for _, flag in ipairs(COMMON_FLAGS) do flag_field(flag) end
for _, flags in pairs(OWN_FLAGS) do
    for _, flag in ipairs(flags) do flag_field(flag) end
end
-- Bodies.
field("node", ProtoField.uint64, "Sender", base.HEX)
field("target", ProtoField.uint64, "Target", base.HEX)
field("nonce", ProtoField.uint64, "Nonce", base.HEX)
field("features", ProtoField.uint32, "Features", base.HEX)
field("frame_bytes_max", ProtoField.uint16, "Largest frame by each link")
field("link_frame_bytes_max", ProtoField.uint16, "Largest frame by this link")
field("name_bytes", ProtoField.uint8, "Bytes of the name")
field("name", ProtoField.string, "Name")
field("name_rest", ProtoField.string, "Rest of the name")
field("other", ProtoField.uint64, "Another node", base.HEX)
field("item", ProtoField.none, "Item")
field("item.type", ProtoField.uint8, "Type")
field("item.length", ProtoField.uint8, "Length")
field("item.value", ProtoField.bytes, "Value")
field("address", ProtoField.none, "Address")
field("address.family", ProtoField.uint8, "Family", base.DEC, FAMILIES)
field("address.bytes", ProtoField.bytes, "Address")
field("arrived_bytes", ProtoField.uint32, "Bytes of the hello as it arrived", base.DEC, nil, 0xFFFF)
field("room_for_many", ProtoField.bool, "Room for many long frames", 32, nil, 0x10000)
field("waited_us", ProtoField.uint32, "Waited until it was looked at (µs)", base.DEC, nil, 0xFFFF0000)
field("held_us", ProtoField.uint32, "Held back (µs)", base.DEC, nil, 0xFFFF)
field("selective", ProtoField.uint64, "Selective word", base.HEX)
field("grant", ProtoField.uint32, "Grant (bytes of one message unasked)")
field("cause", ProtoField.uint32, "Cause", base.DEC, CAUSES)
field("backoff_us", ProtoField.uint32, "Suggested back-off (µs)")
field("source_endpoint", ProtoField.uint16, "Source endpoint")
field("destination_endpoint", ProtoField.uint16, "Destination endpoint")
field("match_bits", ProtoField.uint64, "Match bits", base.HEX)
field("handle", ProtoField.uint32, "Handle", base.HEX)
field("total_bytes", ProtoField.uint64, "Total bytes")
field("unscheduled_bytes", ProtoField.uint32, "Unscheduled bytes")
field("fragment_bytes", ProtoField.uint16, "Fragment bytes")
field("pieces", ProtoField.uint16, "Pieces of memory")
field("immediate", ProtoField.uint64, "Immediate data", base.HEX)
field("stamp", ProtoField.uint64, "Stamp", base.HEX)
field("memory", ProtoField.none, "Piece of memory")
field("memory.address", ProtoField.uint64, "Address", base.HEX)
field("memory.bytes", ProtoField.uint64, "Bytes")
field("offset", ProtoField.uint64, "Offset")
field("bytes", ProtoField.uint32, "Bytes")
field("pull", ProtoField.uint16, "Pull identifier", base.HEX)
field("block_pull", ProtoField.uint32, "Pull identifier", base.HEX, nil, 0xFFFF0000)
field("place", ProtoField.uint32, "Place")
field("block_place", ProtoField.uint32, "Place in the block", base.DEC, nil, 0xFFFF)
field("slice_place", ProtoField.uint32, "Place in the frame that was cut", base.DEC, nil, 0xFFFF0000)
field("slice_total", ProtoField.uint32, "Bytes of the frame that was cut", base.DEC, nil, 0xFFFF)
field("message", ProtoField.uint32, "Message number")
field("status", ProtoField.uint32, "Status", base.DEC, STATUSES)
field("key", ProtoField.uint64, "Region key", base.HEX)
field("generation", ProtoField.uint32, "Region generation")
field("operator", ProtoField.uint8, "Operator", base.DEC, OPERATORS)
field("datatype", ProtoField.uint8, "Datatype", base.DEC, DATATYPES)
field("count", ProtoField.uint32, "Elements")
field("payload", ProtoField.bytes, "Payload")
field("padding", ProtoField.bytes, "Padding")
field("unknown", ProtoField.bytes, "Not understood")
-- Extension blocks (VERSION-3).
field("extension", ProtoField.none, "Extension block")
field("extension.bytes", ProtoField.uint16, "Bytes of the block")
field("extension.type", ProtoField.uint8, "Type", base.DEC, EXTENSIONS)
field("extension.length", ProtoField.uint8, "Length")
field("extension.value", ProtoField.bytes, "Value")
field("extension.class", ProtoField.uint8, "Class of service")
field("extension.seal", ProtoField.bytes, "Seal")
-- What relays pass on (RELAY-1, RELAY-2).
field("relay", ProtoField.none, "Relay's head")
field("relay.use", ProtoField.uint8, "Use", base.DEC, USES)
field("relay.length", ProtoField.uint16, "Bytes of list and frames")
field("relay.destination_tag", ProtoField.uint16, "Tag of who takes it from this cable", base.HEX)
field("relay.source_tag", ProtoField.uint16, "Tag of who put it there", base.HEX)
field("relay.place", ProtoField.uint8, "Place in the list, or cables left")
field("relay.hops", ProtoField.uint8, "Hops")
field("relay.smallest", ProtoField.uint16, "Largest frame that all links so far take")
field("relay.hop", ProtoField.none, "Hop")
field("relay.hop.tag", ProtoField.uint16, "Tag", base.HEX)
field("relay.hop.link", ProtoField.uint8, "Link of who reads this")
field("relay.hop.family", ProtoField.uint8, "Family", base.DEC, FAMILIES)
field("relay.hop.address", ProtoField.bytes, "Address")
-- What follows from other frames.
field("source_name", ProtoField.string, "Sender's name")
field("destination_name", ProtoField.string, "Destination's name")
field("first_copy", ProtoField.framenum, "First copy in", base.NONE, frametype.NONE)
field("train", ProtoField.framenum, "Train begins in", base.NONE, frametype.NONE)
field("train_offset", ProtoField.uint64, "Byte of the message")
field("asked", ProtoField.framenum, "Asked for in", base.NONE, frametype.REQUEST)
field("concerns", ProtoField.framenum, "Concerns the message in", base.NONE, frametype.REQUEST)
field("restarted", ProtoField.uint32, "Epoch before", base.HEX)

local all = {}
for _, one in pairs(f) do all[#all + 1] = one end
emp.fields = all

local e = {
    short = ProtoExpert.new("emp.short", "The frame is shorter than it must be", expert.group.MALFORMED, expert.severity.ERROR),
    version = ProtoExpert.new("emp.wrong_version", "Of another version", expert.group.UNDECODED, expert.severity.WARN),
    kind = ProtoExpert.new("emp.unknown_kind", "Of an unknown kind", expert.group.UNDECODED, expert.severity.WARN),
    value = ProtoExpert.new("emp.bad_field", "A field has a value that it cannot have", expert.group.MALFORMED, expert.severity.ERROR),
    checksum = ProtoExpert.new("emp.bad_checksum", "The checksum is wrong", expert.group.CHECKSUM, expert.severity.ERROR),
    cut = ProtoExpert.new("emp.cut", "The frame goes on in datagrams behind this one", expert.group.REASSEMBLE, expert.severity.NOTE),
    again = ProtoExpert.new("emp.retransmission", "Retransmission", expert.group.SEQUENCE, expert.severity.NOTE),
    restarted = ProtoExpert.new("emp.new_epoch", "The sender has a new epoch", expert.group.SEQUENCE, expert.severity.NOTE),
    refused = ProtoExpert.new("emp.refused", "The receiver cannot take it now", expert.group.RESPONSE_CODE, expert.severity.NOTE),
    failed = ProtoExpert.new("emp.failed", "The operation has failed", expert.group.RESPONSE_CODE, expert.severity.WARN),
}
emp.experts = { e.short, e.version, e.kind, e.value, e.checksum, e.cut, e.again, e.restarted, e.refused, e.failed }

emp.prefs.ethertype = Pref.uint("EtherType", 0x88B5, "Of raw frames (35001: IEEE local experimental 1)")
emp.prefs.port = Pref.uint("UDP port", 51966, "Of datagrams")
emp.prefs.anywhere = Pref.bool("On any UDP port", true, "Take datagrams on other ports that consist of whole frames of EMP")
emp.prefs.sums = Pref.bool("Check sums", true, "Compute the checksum of frames whose ends are known")

-- ---- identities and checksums (FRAME-3, FRAME-4, CRC-1, CRC-2)

local function u64(high, low) return UInt64(low, high) end
local MIX_1, MIX_2 = u64(0xBF58476D, 0x1CE4E5B9), u64(0x94D049BB, 0x133111EB)

-- splitmix64's finaliser.
local function mix(z)
    z = z:bxor(z:rshift(30)) * MIX_1
    z = z:bxor(z:rshift(27)) * MIX_2
    return z:bxor(z:rshift(31))
end

local function tags(identity)
    local mixed = mix(identity)
    local tag = mixed:rshift(48):tonumber()
    if tag == 0 then tag = 1 elseif tag == 0xFFFF then tag = 0xFFFE end
    return mixed:rshift(32):tonumber(), tag
end

local bxor, band, rshift = bit32.bxor, bit32.band, bit32.rshift
local CRC = {}
for byte = 0, 255 do
    local crc = byte
    for _ = 1, 8 do
        crc = band(crc, 1) == 1 and bxor(rshift(crc, 1), 0x82F63B78) or rshift(crc, 1)
    end
    CRC[byte] = crc
end

local function crc_add(crc, text)
    for at = 1, #text do
        crc = bxor(rshift(crc, 8), CRC[band(bxor(crc, text:byte(at)), 0xFF)])
    end
    return crc
end

local function bytes_of(number)
    return string.char(rshift(number, 24), band(rshift(number, 16), 0xFF), band(rshift(number, 8), 0xFF), band(number, 0xFF))
end

local function crc32c(...)
    local crc = 0xFFFFFFFF
    for _, text in ipairs({ ... }) do crc = crc_add(crc, text) end
    return bxor(crc, 0xFFFFFFFF)
end

-- ---- what is known of the capture

-- nodes: by source tag; each has its identity, name, the epochs seen. by_tag: by destination tag.
-- pairs: by the two ends, sequence numbers and operations of one direction. told: what was found about a frame when it was first
-- looked at, as state only grows in order of capture.
local nodes, by_tag, pairs_of, told

function emp.init()
    nodes, by_tag, pairs_of, told = {}, {}, {}, {}
end

local function learn(identity)
    local source, destination = tags(identity)
    local node = nodes[source]
    if not node then
        node = { epochs = {} }
        nodes[source] = node
    end
    if not node.identity then
        node.identity = identity
        by_tag[destination] = by_tag[destination] or node
    end
    return node
end

local function node_of(source)
    local node = nodes[source]
    if not node then
        node = { epochs = {} }
        nodes[source] = node
    end
    return node
end

-- The destination's whole epoch, of whose last 16 bits the frame tells.
local function epoch_of(node, check)
    local epochs = node.epochs
    for at = #epochs, 1, -1 do
        if band(epochs[at], 0xFFFF) == check then return epochs[at] end
    end
end

local function pair_key(from_tag, from_epoch, to_tag, to_check)
    return string.format("%04x.%04x>%04x.%04x", from_tag, from_epoch, to_tag, to_check)
end

-- A direction of a pair: by destination tags and epoch checks, which each frame of either direction has or its sender is known by.
local function pair(key)
    local found = pairs_of[key]
    if not found then
        found = { first = {}, trains = {}, pulls = {}, handles = {}, messages = {} }
        pairs_of[key] = found
    end
    return found
end

-- ---- a frame's bytes, read in order

local Cursor = {}
Cursor.__index = Cursor

-- Bytes `at` to before `finish` of a buffer, of which that much is there.
local function cursor(tvb, at, finish, tree)
    return setmetatable({ tvb = tvb, at = at, finish = finish, tree = tree }, Cursor)
end

function Cursor:left() return self.finish - self.at end

-- Takes so many bytes; says that they are missing, once, and gives nil.
function Cursor:take(bytes)
    if bytes > self:left() then
        if not self.short then
            self.tree:add_proto_expert_info(e.short)
            self.short = true
        end
        self.at = self.finish
        return nil
    end
    local range = self.tvb:range(self.at, bytes)
    self.at = self.at + bytes
    return range
end

-- A field of 1 to 4 bytes: its value, or nil.
function Cursor:number(name, bytes)
    local range = self:take(bytes)
    if not range then return nil end
    self.tree:add(f[name], range)
    return range:uint()
end

-- One of 8 bytes.
function Cursor:long(name)
    local range = self:take(8)
    if not range then return nil end
    self.tree:add(f[name], range)
    return range:uint64()
end

function Cursor:skip(bytes) return self:take(bytes) ~= nil end

function Cursor:bytes(name, bytes)
    if bytes == 0 then return end
    local range = self:take(bytes)
    if range then self.tree:add(f[name], range) end
end

local function wrong(tree, text)
    tree:add_proto_expert_info(e.value, text)
end

-- ---- addresses and items (PATH-1, HELLO-6, ACK-10, VERSION-3)

local function address(tree, range)
    if range:len() < 1 then return end
    local family = range:range(0, 1):uint()
    local sub = tree:add(f["address"], range)
    sub:add(f["address.family"], range:range(0, 1))
    if range:len() == 1 then return end
    local bytes = range:range(1)
    sub:add(f["address.bytes"], bytes)
    local text
    if family == 1 and bytes:len() == 6 then
        text = tostring(bytes:ether())
    elseif family == 4 and bytes:len() == 6 then
        text = string.format("%s:%d", tostring(bytes:range(0, 4):ipv4()), bytes:range(4, 2):uint())
    elseif family == 6 and bytes:len() == 22 then
        text = string.format("[%s]:%d", tostring(bytes:range(0, 16):ipv6()), bytes:range(16, 2):uint())
    elseif family == 9 and bytes:len() == 4 then
        text = string.format("node %d of a simulated fabric", bytes:range(0, 4):uint())
    end
    if text then sub:append_text(": " .. text) end
end

-- Items to the end of a body, or a type 0; `known(tree, type, value)` looks at each.
local function items(c, known)
    while c:left() > 0 do
        if c.tvb:range(c.at, 1):uint() == 0 then
            c:bytes("padding", c:left())
            return
        end
        if c:left() < 2 then
            c:skip(2)
            return
        end
        local kind, length = c.tvb:range(c.at, 1):uint(), c.tvb:range(c.at + 1, 1):uint()
        local sub = c.tree:add(f["item"], c.tvb:range(c.at, math.min(2 + length, c:left())))
        sub:add(f["item.type"], c.tvb:range(c.at, 1))
        sub:add(f["item.length"], c.tvb:range(c.at + 1, 1))
        c:skip(2)
        local value = length > 0 and c:take(length) or nil
        if length > 0 and not value then return end
        if not known(sub, kind, value) and value then sub:add(f["item.value"], value) end
    end
end

local function extensions(c)
    if c:left() < 4 then
        c:skip(4)
        return
    end
    local size = c.tvb:range(c.at, 2):uint()
    if size < 8 or size % 8 ~= 0 then wrong(c.tree, "An extension block is a multiple of 8 bytes") end
    local finish = c.at + math.min(size, c:left())
    if finish < c.at + 4 then finish = c.at + 4 end
    local sub = c.tree:add(f["extension"], c.tvb:range(c.at, finish - c.at))
    local inner = cursor(c.tvb, c.at, finish, sub)
    inner:number("extension.bytes", 2)
    inner:skip(2)
    while inner:left() >= 2 do
        local kind, length = inner.tvb:range(inner.at, 1):uint(), inner.tvb:range(inner.at + 1, 1):uint()
        if kind == 0 then
            inner:bytes("padding", inner:left())
            break
        end
        inner:number("extension.type", 1)
        inner:number("extension.length", 1)
        local value = length > 0 and inner:take(length) or nil
        if length > 0 and not value then break end
        if value then
            sub:add(f["extension.value"], value)
            if kind == 1 and length == 1 then sub:add(f["extension.class"], value) end
            if kind == 3 then sub:add(f["extension.seal"], value) end
        end
    end
    c.at = finish
end

-- ---- bodies, kind by kind; each gives what others ask of it

local bodies = {}

-- What an item tells of a name that is longer than its place (HELLO-9).
local function rest_of_name(c)
    local at, finish = c.at, c.at + c:left()
    while at + 2 <= finish do
        local kind, length = c.tvb:range(at, 1):uint(), c.tvb:range(at + 1, 1):uint()
        if kind == 0 or at + 2 + length > finish then return "" end
        if kind == 3 and length > 0 then return c.tvb:range(at + 2, length):string(ENC_UTF_8) end
        at = at + 2 + length
    end
    return ""
end

local function hello(c, facts)
    facts.identity = c:long("node")
    c:long("target")
    c:long("nonce")
    c:number("features", 4)
    c:number("frame_bytes_max", 2)
    local name_bytes = c:number("name_bytes", 1)
    if not name_bytes or not c:skip(1) then return end
    if name_bytes > 32 then wrong(c.tree, "A name has at most 32 bytes") end
    if name_bytes > c:left() then
        wrong(c.tree, "The name is longer than the body")
        return
    end
    if name_bytes > 0 then
        local range = c:take(name_bytes)
        facts.name = range:string(ENC_UTF_8) .. rest_of_name(c)
        c.tree:add(f["name"], range, facts.name)
    else
        c.tree:add(f["name"], c.tvb:range(c.at - 1, 0), "")
    end
    items(c, function(tree, kind, value)
        if kind == 1 and value then
            address(tree, value)
            return true
        elseif kind == 2 and value and value:len() == 2 then
            tree:add(f["link_frame_bytes_max"], value)
            return true
        elseif kind == 3 and value then
            tree:add(f["name_rest"], value)
            return true
        elseif kind == 4 and value and value:len() >= 8 then
            tree:add(f["other"], value:range(0, 8))
            if value:len() > 8 then address(tree, value:range(8)) end
            return true
        end
    end)
end

bodies["hello"] = hello
bodies["hello-reply"] = function(c, facts, word)
    c.tree:add(f["arrived_bytes"], word)
    c.tree:add(f["room_for_many"], word)
    hello(c, facts)
end

bodies["close"] = function(c, facts) facts.identity = c:long("node") end

bodies["ack"] = function(c, facts, word)
    c.tree:add(f["waited_us"], word)
    c.tree:add(f["held_us"], word)
    facts.identity = c:long("node")
    local words = 0
    while words < 4 and c:left() >= 8 do
        c:long("selective")
        words = words + 1
    end
    if words < 4 then
        if c:left() > 0 then wrong(c.tree, "Half a word") end
        return
    end
    items(c, function(tree, kind, value)
        if kind == 1 and value and value:len() == 4 then
            local item = tree:add(f["grant"], value)
            if value:uint() == 0xFFFFFFFF then item:append_text(" (no bound)") end
            return true
        end
    end)
end

bodies["not-ready"] = function(c, facts, word)
    c.tree:add(f["message"], word)
    facts.concerns_message = word:uint()
    facts.identity = c:long("node")
    local cause = c:number("cause", 4)
    if cause and not CAUSES[cause] then wrong(c.tree, "No such cause") end
    c:number("backoff_us", 4)
    c.tree:add_proto_expert_info(e.refused)
    facts.info = cause and CAUSES[cause]
end

local function long_part(c, facts)
    local total = c:long("total_bytes")
    local unscheduled = c:number("unscheduled_bytes", 4)
    facts.fragment = c:number("fragment_bytes", 2)
    local pieces = c:number("pieces", 2)
    facts.total = total
    if facts.fragment == 0 then wrong(c.tree, "Further frames without bytes") end
    if total and total:higher() >= 0x80000000 then wrong(c.tree, "More than 2^63 bytes") end
    if total and unscheduled and total:higher() == 0 and unscheduled > total:lower() then wrong(c.tree, "More unasked than there is") end
    if pieces and pieces > 8 then
        wrong(c.tree, "At most 8 pieces")
        pieces = nil
    end
    return pieces or 0, unscheduled
end

local function memory(c, pieces, facts)
    c:long("stamp")
    local sum = UInt64(0)
    for _ = 1, pieces do
        if c:left() < 16 then
            c:skip(16)
            return
        end
        local sub = c.tree:add(f["memory"], c.tvb:range(c.at, 16))
        local inner = cursor(c.tvb, c.at, c.at + 16, sub)
        inner:long("memory.address")
        sum = sum + inner:long("memory.bytes")
        c:skip(16)
    end
    if facts.total and sum ~= facts.total then wrong(c.tree, "The pieces are not as long as the whole") end
end

-- What a message and a put have behind their own fields.
local function ending(c, facts, flags)
    local pieces, unscheduled = 0, nil
    if band(flags, 0x10) ~= 0 then pieces, unscheduled = long_part(c, facts) end
    if band(flags, 0x20) ~= 0 then c:long("immediate") end
    if pieces > 0 then memory(c, pieces, facts) end
    facts.first_bytes = c:left()
    if unscheduled and facts.first_bytes > unscheduled then wrong(c.tree, "More payload than leaves unasked") end
end

bodies["message"] = function(c, facts, word, flags)
    c.tree:add(f["message"], word)
    facts.message = word:uint()
    facts.identity = c:long("node")
    c:number("source_endpoint", 2)
    c:number("destination_endpoint", 2)
    c:number("link_frame_bytes_max", 2)
    c:number("frame_bytes_max", 2)
    c:long("match_bits")
    facts.handle = c:number("handle", 4)
    ending(c, facts, flags)
    facts.info = "number " .. facts.message .. (facts.total and (" of " .. tostring(facts.total) .. " bytes") or "")
end

bodies["data"] = function(c, facts, word)
    c.tree:add(f["place"], word)
    facts.place = word:uint()
    facts.info = "place " .. facts.place
end

bodies["pull"] = function(c, facts, word)
    c.tree:add(f["handle"], word)
    facts.concerns_handle = word:uint()
    facts.identity = c:long("node")
    facts.offset = c:long("offset")
    local bytes = c:number("bytes", 4)
    if bytes == 0 then wrong(c.tree, "A pull of no bytes") end
    facts.pull = c:number("pull", 2)
    c:skip(2)
    if bytes and facts.pull then facts.info = string.format("%d bytes from %s as %04x", bytes, tostring(facts.offset), facts.pull) end
end

bodies["block"] = function(c, facts, word)
    c.tree:add(f["block_pull"], word)
    c.tree:add(f["block_place"], word)
    facts.block, facts.block_place = word:range(0, 2):uint(), word:range(2, 2):uint()
    facts.info = string.format("%04x place %d", facts.block, facts.block_place)
end

bodies["done"] = function(c, facts, word, flags)
    c.tree:add(f["handle"], word)
    facts.concerns_handle = word:uint()
    facts.identity = c:long("node")
    local status = c:number("status", 4)
    if status and not STATUSES[status] then wrong(c.tree, "No such status") end
    if STATUSES[status] and status >= 2 then c.tree:add_proto_expert_info(e.failed, STATUSES[status]) end
    facts.info = status and STATUSES[status]
end

local function region(c, facts)
    facts.identity = c:long("node")
    c:number("source_endpoint", 2)
    c:number("destination_endpoint", 2)
    c:number("link_frame_bytes_max", 2)
    c:number("frame_bytes_max", 2)
    c:long("key")
    facts.handle = c:number("handle", 4)
    c:number("generation", 4)
    facts.offset = c:long("offset")
end

bodies["put"] = function(c, facts, word, flags)
    c.tree:add(f["message"], word)
    facts.message = word:uint()
    region(c, facts)
    ending(c, facts, flags)
end

bodies["get"] = function(c, facts)
    region(c, facts)
    local bytes = c:number("bytes", 4)
    facts.pull = c:number("pull", 2)
    local fragment = c:number("fragment_bytes", 2)
    if fragment == 0 then wrong(c.tree, "Frames without bytes") end
    if bytes then facts.info = bytes .. " bytes" end
end

bodies["atomic"] = function(c, facts, word)
    c.tree:add(f["message"], word)
    facts.message = word:uint()
    region(c, facts)
    local operator = c:number("operator", 1)
    local datatype = c:number("datatype", 1)
    c:skip(2)
    local count = c:number("count", 4)
    if operator and not OPERATORS[operator] then wrong(c.tree, "No such operator") end
    if datatype and not DATATYPES[datatype] then wrong(c.tree, "No such datatype") end
    if count == 0 then wrong(c.tree, "No elements") end
    if count and OPERATORS[operator] and DATATYPES[datatype] then
        if BITWISE[operator] and datatype > 10 or ORDER[operator] and datatype > 12 then wrong(c.tree, "No such operation on this datatype") end
        local elements = operator == 11 and 0 or COMPARES[operator] and 2 * count or count
        if elements * DATATYPE_BYTES[datatype] ~= c:left() then wrong(c.tree, "Another number of operands than it says") end
        facts.info = OPERATORS[operator] .. " of " .. DATATYPES[datatype]
    end
end

bodies["slice"] = function(c, facts, word)
    c.tree:add(f["slice_place"], word)
    c.tree:add(f["slice_total"], word)
    local place, total = word:range(0, 2):uint(), word:range(2, 2):uint()
    if total < HEADER or place + c:left() > total or c:left() == 0 or place % 64 ~= 0 then wrong(c.tree, "Not a part of its frame") end
    facts.info = string.format("bytes %d to %d of %d", place, place + c:left(), total)
end

bodies["skip"] = function() end

-- ---- following

-- What a frame says of frames before it, found when it is first seen.
local function follow(kind, h, facts, number)
    local found = {}
    local node = facts.identity and learn(facts.identity) or node_of(h.source_tag)
    if facts.identity and tags(facts.identity) ~= h.source_tag then found.foreign = true end
    if facts.name and facts.name ~= "" then node.name = facts.name end
    local last = node.epochs[#node.epochs]
    -- A node has an epoch of its own; what it has of each peer is told in one of the last.
    if kind ~= "slice" and last ~= h.source_epoch then
        local known = false
        for _, epoch in ipairs(node.epochs) do known = known or epoch == h.source_epoch end
        if not known then
            if last and (kind == "hello" or kind == "hello-reply") then found.restarted = last end
            node.epochs[#node.epochs + 1] = h.source_epoch
        end
    end
    found.source_name = node.name
    local other = by_tag[h.destination_tag]
    found.destination_name = other and other.name
    if not node.identity then return found, node, other end
    local _, own_tag = tags(node.identity)
    local there = pair(pair_key(own_tag, band(h.source_epoch, 0xFFFF), h.destination_tag, h.destination_epoch))
    local back = pair(pair_key(h.destination_tag, h.destination_epoch, own_tag, band(h.source_epoch, 0xFFFF)))
    if SEQUENCED[kind] then
        local first = there.first[h.sequence]
        if first and first ~= number then found.first_copy = first else there.first[h.sequence] = number end
    end
    if facts.message and (kind == "message" or kind == "put") then
        there.trains[h.sequence] = { number = number, first_bytes = facts.first_bytes, fragment = facts.fragment, total = facts.total }
    end
    if facts.message then there.messages[facts.message] = there.messages[facts.message] or number end
    if facts.handle and kind ~= "get" then there.handles[facts.handle] = number end
    if kind == "get" then there.handles[facts.handle or 0] = number end
    if facts.pull then there.pulls[facts.pull] = { number = number, offset = kind == "pull" and facts.offset or UInt64(0) } end
    if facts.place then
        local train = there.trains[(h.sequence - facts.place) % 0x100000000]
        if train then
            found.train = train.number
            if train.fragment then found.offset = UInt64(train.first_bytes) + UInt64(facts.place - 1) * UInt64(train.fragment) end
        end
    end
    if facts.block then
        local asked = back.pulls[facts.block]
        found.asked = asked and asked.number
    end
    if facts.concerns_handle then found.concerns = back.handles[facts.concerns_handle] end
    if facts.concerns_message then found.concerns = back.messages[facts.concerns_message] end
    return found, node, other
end

-- The checksum: right, wrong, or that it cannot be told.
local function check(kind, h, range, facts, node, other, frame_bytes)
    if not emp.prefs.sums or range:len() < frame_bytes then return "unverified" end
    local seed = 0
    if kind ~= "hello" and kind ~= "hello-reply" then
        local epoch = other and epoch_of(other, h.destination_epoch)
        if not (node and node.identity and other and other.identity and epoch) then return "unverified" end
        local function eight(identity) return bytes_of(identity:higher()) .. bytes_of(identity:lower()) end
        seed = crc32c(eight(other.identity), eight(node.identity), bytes_of(epoch))
    end
    if seed == h.checksum and seed ~= 0 then return "memory" end
    local covered = frame_bytes
    if BULK[kind] and band(h.flags, 0x04) ~= 0 then covered = facts.payload_at end
    local text = range:range(0, 28):raw()
    local rest = covered > HEADER and range:range(HEADER, covered - HEADER):raw() or ""
    return crc32c(text, bytes_of(seed), rest) == h.checksum and "good" or "bad"
end

-- ---- a frame

local function header(range, tree)
    local h = {
        flags = range:range(1, 1):uint(), length = range:range(2, 2):uint(), destination_tag = range:range(4, 2):uint(),
        destination_epoch = range:range(6, 2):uint(), source_tag = range:range(8, 4):uint(), source_epoch = range:range(12, 4):uint(),
        sequence = range:range(16, 4):uint(), acknowledge = range:range(20, 4):uint(), checksum = range:range(28, 4):uint(),
    }
    tree:add(f["version"], range:range(0, 1))
    tree:add(f["kind"], range:range(0, 1))
    return h
end

local function flags_of(kind, range, tree)
    local item = tree:add(f["flags"], range:range(1, 1))
    local value, names = range:range(1, 1):uint(), {}
    for _, list in ipairs({ COMMON_FLAGS, OWN_FLAGS[kind] or {} }) do
        for _, flag in ipairs(list) do
            item:add(f[flag_field(flag)], range:range(1, 1))
            if band(value, flag[2]) ~= 0 then names[#names + 1] = flag[1] end
        end
    end
    if #names > 0 then item:append_text(" (" .. table.concat(names, ", ") .. ")") end
end

local function show(found, h, tree)
    local function generated(item) item:set_generated() end
    if found.source_name then generated(tree:add(f["source_name"], found.source_name)) end
    if found.destination_name then generated(tree:add(f["destination_name"], found.destination_name)) end
    if found.restarted then
        generated(tree:add(f["restarted"], found.restarted))
        tree:add_proto_expert_info(e.restarted)
    end
    if found.first_copy then
        generated(tree:add(f["first_copy"], found.first_copy))
        tree:add_proto_expert_info(e.again)
    end
    if found.train then generated(tree:add(f["train"], found.train)) end
    if found.offset then generated(tree:add(f["train_offset"], found.offset)) end
    if found.asked then generated(tree:add(f["asked"], found.asked)) end
    if found.concerns then generated(tree:add(f["concerns"], found.concerns)) end
    if found.foreign then wrong(tree, "The source tag is not that of the sender's identity") end
    local item = tree:add(f["checksum_status"], found.checksum)
    generated(item)
    if found.checksum == "bad" then tree:add_proto_expert_info(e.checksum) end
end

-- Shows the frame that begins at `at`: the byte behind it, what it is called, and what is said of it. The caller has seen that a
-- header is there.
local function frame(tvb, at, index, pinfo, root)
    local left = tvb:len() - at
    local start = tvb:range(at, HEADER)
    local version, number = rshift(start:range(0, 1):uint(), 5), band(start:range(0, 1):uint(), 0x1F)
    local kind = KINDS[number > 16 and number - 16 or number]
    local claimed = HEADER + start:range(2, 2):uint()
    local bytes = math.min(claimed, left)
    local range = tvb:range(at, bytes)
    local tree = root:add(emp, range)
    local h = header(start, tree)
    flags_of(kind, start, tree)
    tree:add(f["length"], start:range(2, 2))
    for name, place in pairs({ destination_tag = { 4, 2 }, destination_epoch = { 6, 2 } }) do tree:add(f[name], start:range(place[1], place[2])) end
    for _, name in ipairs({ "source_tag", "source_epoch", "sequence", "acknowledge", "word", "checksum" }) do
        local place = ({ source_tag = 8, source_epoch = 12, sequence = 16, acknowledge = 20, word = 24, checksum = 28 })[name]
        tree:add(f[name], start:range(place, 4))
    end
    if version ~= 1 then
        tree:add_proto_expert_info(e.version)
        return tvb:len(), "version " .. version
    end
    if not kind then
        tree:add_proto_expert_info(e.kind)
        return at + bytes, "kind " .. number
    end
    if claimed > left then tree:add_proto_expert_info(e.cut) end
    local c = cursor(tvb, at + HEADER, at + bytes, tree)
    if number > 16 then
        tree:add_proto_expert_info(e.kind, "With extensions: version 1 drops it")
        extensions(c)
    end
    local facts = {}
    bodies[kind](c, facts, start:range(24, 4), h.flags)
    facts.payload_at = c.at - at
    c:bytes("payload", c:left())
    local key = pinfo.number .. "." .. index
    local found = told[key]
    if not found then
        local node, other
        found, node, other = follow(kind, h, facts, pinfo.number)
        found.checksum = number > 16 and "unverified" or check(kind, h, range, facts, node, other, claimed)
        told[key] = found
    end
    show(found, h, tree)
    local text = KIND_NAMES[number]
    tree:set_text("Ethernet Message Passing, " .. text)
    if SEQUENCED[kind] then text = text .. " #" .. h.sequence end
    if facts.info then text = text .. " " .. facts.info end
    if found.first_copy then text = text .. " (again)" end
    if found.checksum == "bad" then text = text .. " (bad checksum)" end
    return at + bytes, text, found
end

-- The frames of a link frame, or those behind a relay's head.
local function frames(tvb, pinfo, root, before)
    local length = tvb:len()
    if length < HEADER then
        local tree = root:add(emp, tvb:range(0, length))
        tree:add_proto_expert_info(e.short)
        pinfo.cols.info = "shorter than a header"
        return length
    end
    local at, index, texts, first = 0, 0, {}, nil
    repeat
        local text, found
        at, text, found = frame(tvb, at, index, pinfo, root)
        first = first or found
        texts[#texts + 1] = text
        index = index + 1
        -- A frame is followed by another if a header is left that begins with the version (BUNDLE-1).
    until length - at < HEADER or rshift(tvb:range(at, 1):uint(), 5) ~= 1
    if at < length then root:add(f["padding"], tvb:range(at, length - at)) end
    local who = ""
    if first and (first.source_name or first.destination_name) then
        who = (first.source_name or "?") .. " to " .. (first.destination_name or "?") .. ": "
    end
    pinfo.cols.info = before .. who .. table.concat(texts, ", ")
    return length
end

-- A relay's head and its list: the byte behind them, that behind all it carries, and what is said of it. Nil: it is none.
local function relayed(tvb, root)
    local left = tvb:len()
    local tree = root:add(emp, tvb:range(0, left))
    tree:set_text("Ethernet Message Passing, relayed")
    local c = cursor(tvb, 1, left, tree)
    tree:add(f["kind"], tvb:range(0, 1))
    local use, length = c:number("relay.use", 1), c:number("relay.length", 2)
    if c:number("relay.destination_tag", 2) == nil or c:number("relay.source_tag", 2) == nil then return nil end
    local place, hops, smallest = c:number("relay.place", 1), c:number("relay.hops", 1), c:number("relay.smallest", 2)
    if smallest == nil then return nil end
    if RELAY_HEAD + length > left then
        tree:add_proto_expert_info(e.cut)
        return nil
    end
    local inside = place <= hops
    if use == 1 then inside = place + hops < HOP_LIMIT end
    if not USES[use] or not inside or hops >= HOP_LIMIT then
        wrong(tree, "No use that is known, or a list that is too long, or a place beyond its end")
        return nil
    end
    if hops * RELAY_HOP + HEADER > length then
        tree:add_proto_expert_info(e.short)
        return nil
    end
    for _ = 1, hops do
        local at = c.at
        local item = tree:add(f["relay.hop"], tvb:range(at, RELAY_HOP))
        item:add(f["relay.hop.tag"], tvb:range(at, 2))
        item:add(f["relay.hop.link"], tvb:range(at + 2, 1))
        item:add(f["relay.hop.family"], tvb:range(at + 3, 1))
        local bytes = FAMILY_BYTES[tvb:range(at + 3, 1):uint()]
        if bytes and bytes <= 8 then
            item:add(f["relay.hop.address"], tvb:range(at + 4, bytes))
        else
            wrong(tree, "A hop without an address that relays send to")
        end
        c.at = at + RELAY_HOP
    end
    tree:set_len(c.at)
    return c.at, RELAY_HEAD + length, USES[use] .. " " .. place .. "/" .. hops, use
end

function emp.dissector(tvb, pinfo, root)
    local length = tvb:len()
    pinfo.cols.protocol = "EMP"
    if length > 0 and tvb:range(0, 1):uint() == RELAYED then
        local at, finish, text, use = relayed(tvb, root)
        if not at then
            pinfo.cols.info = "relayed, malformed"
            return length
        end
        if finish < length then root:add(f["padding"], tvb:range(finish, length - finish)) end
        if use == 2 then
            root:add(f["unknown"], tvb:range(at, finish - at)):set_text("Common header of the frame that was cut off")
            pinfo.cols.info = text
            return length
        end
        frames(tvb:range(at, finish - at):tvb(), pinfo, root, text .. ": ")
        return length
    end
    return frames(tvb, pinfo, root, "")
end

-- Whether a datagram consists of whole frames: each a kind that is there, none with flags or a word that its kind has not.
local function looks_like(tvb)
    local length, at, count = tvb:len(), 0, 0
    while at + HEADER <= length do
        local first = tvb:range(at, 1):uint()
        local kind = KINDS[band(first, 0x1F)]
        if rshift(first, 5) ~= 1 or not kind then return false end
        if tvb:range(at + 8, 4):uint() == 0 or tvb:range(at + 12, 4):uint() == 0 then return false end
        if (kind == "hello" or kind == "close") and tvb:range(at + 24, 4):uint() ~= 0 then return false end
        at = at + HEADER + tvb:range(at + 2, 2):uint()
        count = count + 1
    end
    -- A long frame goes on in datagrams behind its first.
    return count > 0 and (at == length or (count == 1 and at > length and at >= 1400))
end

local function anywhere(tvb, pinfo, root)
    if not emp.prefs.anywhere or not looks_like(tvb) then return false end
    emp.dissector(tvb, pinfo, root)
    return true
end

local ethertypes, ports = DissectorTable.get("ethertype"), DissectorTable.get("udp.port")
local ethertype, port = emp.prefs.ethertype, emp.prefs.port
ethertypes:add(ethertype, emp)
ports:add(port, emp)
emp:register_heuristic("udp", anywhere)

function emp.prefs_changed()
    if ethertype ~= emp.prefs.ethertype then
        ethertypes:remove(ethertype, emp)
        ethertype = emp.prefs.ethertype
        ethertypes:add(ethertype, emp)
    end
    if port ~= emp.prefs.port then
        ports:remove(port, emp)
        port = emp.prefs.port
        ports:add(port, emp)
    end
end
