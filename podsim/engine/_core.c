/* The engine of podsim on flat arrays: the same programs as the one on SimPy, and the same times to the picosecond.
 *
 * Everything is an integer. Time is in picoseconds; the room of a channel is in parts of 2^48, what is left of a
 * transfer in parts of 2^62. docs/background/engine.md says what the steps mean; podsim/engine/compiled.py lays the arrays
 * out, and podsim/engine/reference.py is the readable form of what is done here.
 *
 * Times that do not fit into 64 bits end the run with TOO_LARGE, and the program is run on SimPy. Every sum and product
 * of times is checked by `plus`, `times` or `charge`, or is taken in 128 bits within the bounds that are stated there.
 */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t i64;
typedef uint64_t u64;
typedef __int128 i128;

enum { WORK, MEET, TAKE, GIVE, SEND, NOISY, STEADY, STEADY_NOISY };
enum { SEQUENCE_COLUMNS = 4, GROUP_COLUMNS = 7, TRANSFER_COLUMNS = 5, LOAD_COLUMNS = 4, NOISE_COLUMNS = 4 };
enum { OK, STUCK, TOO_LARGE, INTERRUPTED, NO_MEMORY };

#define CHANNEL_BITS 48
#define LEFT_BITS 62
#define WHOLE ((i64)1 << CHANNEL_BITS)
#define ALL_LEFT ((i64)1 << LEFT_BITS)
#define SLACK (ALL_LEFT >> 8)
#define NEVER INT64_MAX
#define LONGEST ((i64)1 << 61)       /* no clock and no transfer gets this far: sums of two of them fit */
#define HEAVIEST ((i128)1 << 74)     /* on a channel; with sizes below 2^48 and rooms below 2^52, products fit */
#define RIVAL_BITS 13                /* of a channel's room, to compare kinds by; a work of 2^50 fits */
#define NO_SPEED 0                   /* in place of the time that a transfer would take */

/* Shapes are those of flat.py. */
typedef struct {
    const i64 *ops, *sequences, *charges, *transfers, *loads, *groups, *phases, *of_lane, *tokens, *parties, *bases;
    const i64 *noises, *tables, *slow_lanes, *slow_channels, *ranks; /* ranks: of each kind among those of transfers */
    i64 lane_count, group_count, kind_count, channel_count, barrier_count, semaphore_count, noise_count;
    i64 slow_lane_count, slow_channel_count, explicit_, seed, jitter_kind, fault_kind, contention_kind, rank_count;
    i64 *accounts, *begins, *marks, *summary, *where, *shared;
} Program;

typedef struct {
    i64 begin, phase_begin, arrived, exchange_begin, weight;
    i64 round, turn, last_end, alone_end; /* alone_end: of an exchange, had no other kind of transfer been there */
    int32_t group, phase, op, op_end, sent, open, last_transfer, last_flow;
    int32_t next_waiting, wait_kind, slow_from;
    int8_t state, ended, parked; /* parked: waits for another lane, which has not come as yet */
} Lane;

enum { RUN, ARRIVED, TAKEN, SENDING, JOINED, RESTED };

typedef struct {
    i64 left, duration, since, finish;
    int32_t lane, transfer, first_link, place; /* place in the heap of ends, or -1 */
    u64 stamp;
    i64 fixed, shared, alone, alone_next, noted, lost; /* what it would take without other kinds, since when, lost to them so far */
    int32_t rank, rival, new_rival, separate; /* rival: the kind that takes most of its channels */
} Flow;

typedef struct { int32_t flow, channel, next, previous; i64 work; i128 weight; } Link;

typedef struct {
    int32_t first; /* of the links on it, or -1 */
    int8_t changed;
    u64 stamp;
    i64 capacity, room;
    i128 weight;
} Channel;

typedef struct { i64 time; int32_t lane; } Wake;

/* Lanes that began a repetition at one instant, with as many to go, one after the other. */
typedef struct { i64 time, left, count; } Together;

typedef struct {
    Program *p;
    i64 now, events, settled_at;
    Lane *lanes;
    Flow *flows;
    Link *links;
    Channel *channels;
    int32_t *heap, heap_count;        /* flows under way, by their end */
    Wake *wakes; int32_t wake_count;  /* lanes that sleep */
    int32_t *ready, ready_count;      /* lanes to go on with at this instant */
    int32_t *changed, changed_count;  /* channels whose transfers may get another speed */
    int32_t *near, *affected;         /* channels and transfers that depend on one another */
    int32_t *meet_first, *meet_count; /* lanes that wait at a barrier */
    int32_t *taker;
    i64 *tokens, *visits, *lost, *taken; /* lost by each flow to each kind; room that each kind takes from a flow */
    int32_t *due; int32_t due_count;  /* transfers over nothing: they end when shares are settled */
    int32_t most_flows, most_links;
    i64 next_fault;
    u64 stamp;
    Together begun, before;
    i64 *round_events; /* events of a round of each sequence, or 0 if rounds may differ */
    int settle, error, mixed; /* mixed: some channel carries transfers of several kinds */
} Engine;

/* ---- Sums that may not fit ---- */

static i64 plus(Engine *e, i64 a, i64 b) {
    i64 sum;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    e->error = TOO_LARGE;
    return 0;
}

static i64 times(Engine *e, i64 a, i64 b) {
    i64 product;
    if (!__builtin_mul_overflow(a, b, &product)) return product;
    e->error = TOO_LARGE;
    return 0;
}

static i64 narrow(Engine *e, i128 value) {
    if (value >= INT64_MIN && value <= INT64_MAX) return (i64)value;
    e->error = TOO_LARGE;
    return 0;
}

/* Account a time so often. */
static void charge(Engine *e, int32_t lane, i64 kind, i64 time, i64 count) {
    i64 *account = e->p->accounts + (i64)lane * e->p->kind_count + kind;
    *account = plus(e, *account, times(e, time, count));
}

/* ---- Heaps ---- */

static void wake_push(Engine *e, i64 time, int32_t lane) {
    if (time > LONGEST) {
        e->error = TOO_LARGE;
        return;
    }
    int32_t at = e->wake_count++;
    Wake *w = e->wakes;
    while (at > 0) {
        int32_t up = (at - 1) / 2;
        if (w[up].time <= time) break;
        w[at] = w[up];
        at = up;
    }
    w[at].time = time;
    w[at].lane = lane;
}

static int32_t wake_pop(Engine *e) {
    Wake *w = e->wakes, last = w[--e->wake_count];
    int32_t lane = w[0].lane, at = 0, count = e->wake_count;
    for (;;) {
        int32_t down = 2 * at + 1;
        if (down >= count) break;
        if (down + 1 < count && w[down + 1].time < w[down].time) down++;
        if (w[down].time >= last.time) break;
        w[at] = w[down];
        at = down;
    }
    w[at] = last;
    return lane;
}

static void heap_put(Engine *e, int32_t at, int32_t flow) {
    e->heap[at] = flow;
    e->flows[flow].place = at;
}

static void heap_settle(Engine *e, int32_t at, int32_t flow) {
    i64 finish = e->flows[flow].finish;
    while (at > 0) {
        int32_t up = (at - 1) / 2;
        if (e->flows[e->heap[up]].finish <= finish) break;
        heap_put(e, at, e->heap[up]);
        at = up;
    }
    for (;;) {
        int32_t down = 2 * at + 1;
        if (down >= e->heap_count) break;
        if (down + 1 < e->heap_count && e->flows[e->heap[down + 1]].finish < e->flows[e->heap[down]].finish) down++;
        if (e->flows[e->heap[down]].finish >= finish) break;
        heap_put(e, at, e->heap[down]);
        at = down;
    }
    heap_put(e, at, flow);
}

static void heap_remove(Engine *e, int32_t flow) {
    int32_t at = e->flows[flow].place, last = e->heap[--e->heap_count];
    e->flows[flow].place = -1;
    if (last != flow) heap_settle(e, at, last);
}

/* ---- Channels and transfers ---- */

static void mark_changed(Engine *e, int32_t channel) {
    if (!e->channels[channel].changed) {
        e->channels[channel].changed = 1;
        e->changed[e->changed_count++] = channel;
    }
}

static const i64 *transfer_of(Engine *e, Flow *flow) { return e->p->transfers + (i64)flow->transfer * TRANSFER_COLUMNS; }

static void start_transfer(Engine *e, int32_t lane, int32_t number, int32_t transfer) {
    int32_t id = lane * e->most_flows + number;
    Flow *flow = e->flows + id;
    flow->transfer = transfer;
    flow->lane = lane;
    flow->left = ALL_LEFT;
    flow->duration = flow->alone = -1;
    flow->finish = NEVER;
    const i64 *t = transfer_of(e, flow);
    flow->rank = (int32_t)e->p->ranks[t[1]];
    if (flow->lost) memset(e->lost + id * e->p->rank_count, 0, sizeof(i64) * (size_t)e->p->rank_count);
    flow->lost = 0;
    i64 count = t[4];
    for (i64 i = 0; i < count; i++) {
        const i64 *load = e->p->loads + (t[3] + i) * LOAD_COLUMNS;
        Link *link = e->links + flow->first_link + i;
        Channel *channel = e->channels + load[0];
        link->channel = (int32_t)load[0];
        link->work = load[1];
        link->weight = ((i128)load[2] << 32) + load[3];
        link->previous = -1;
        link->next = channel->first;
        if (channel->first >= 0) e->links[channel->first].previous = flow->first_link + (int32_t)i;
        channel->first = flow->first_link + (int32_t)i;
        mark_changed(e, link->channel);
    }
    if (!count) e->due[e->due_count++] = id;
    e->events++;
    e->settle = 1;
}

/* Add up what a transfer lost to its rival since its speed changed. */
static void lose(Engine *e, int32_t id) {
    Flow *flow = e->flows + id;
    if (flow->alone > 0 && flow->alone < flow->duration) {
        i64 slower = flow->duration - flow->alone, lost;
        if (!__builtin_mul_overflow(e->now - flow->noted, slower, &lost)) lost /= flow->duration;
        else lost = (i64)((i128)(e->now - flow->noted) * slower / flow->duration);
        flow->lost += lost;
        e->lost[id * e->p->rank_count + flow->rival] += lost;
    }
    flow->noted = e->now;
}

static void end_transfer(Engine *e, int32_t id) {
    Flow *flow = e->flows + id;
    const i64 *t = transfer_of(e, flow);
    lose(e, id);
    for (i64 i = 0; i < t[4]; i++) {
        Link *link = e->links + flow->first_link + i;
        if (link->previous >= 0) e->links[link->previous].next = link->next;
        else e->channels[link->channel].first = link->next;
        if (link->next >= 0) e->links[link->next].previous = link->previous;
        mark_changed(e, link->channel);
    }
    Lane *lane = e->lanes + flow->lane;
    /* Of transfers that end together the first one started gives the exchange its kind. */
    if (lane->last_end < e->now || flow->transfer < lane->last_transfer) {
        lane->last_end = e->now;
        lane->last_transfer = flow->transfer;
        lane->last_flow = id;
    }
    if (e->now - flow->lost > lane->alone_end) lane->alone_end = e->now - flow->lost;
    if (!--lane->open) e->ready[e->ready_count++] = flow->lane;
}

/* Channels and transfers that depend on the changed channels, be it by way of others. */
static int32_t gather(Engine *e, int32_t *flow_count) {
    int32_t near = 0, affected = 0;
    u64 stamp = ++e->stamp;
    e->mixed = 0;
    for (int32_t i = 0; i < e->changed_count; i++) {
        Channel *channel = e->channels + e->changed[i];
        channel->changed = 0;
        channel->stamp = stamp;
        e->near[near++] = e->changed[i];
    }
    e->changed_count = 0;
    for (int32_t i = 0; i < near; i++) {
        Channel *channel = e->channels + e->near[i];
        channel->room = channel->capacity;
        channel->weight = 0;
        int32_t rank = channel->first >= 0 ? e->flows[e->links[channel->first].flow].rank : 0;
        for (int32_t at = channel->first; at >= 0; at = e->links[at].next) {
            channel->weight += e->links[at].weight;
            if (channel->weight >= HEAVIEST) e->error = TOO_LARGE;
            int32_t id = e->links[at].flow;
            Flow *flow = e->flows + id;
            e->mixed |= flow->rank != rank;
            if (flow->stamp == stamp) continue;
            flow->stamp = stamp;
            flow->fixed = -1;
            e->affected[affected++] = id;
            const i64 *t = transfer_of(e, flow);
            for (i64 j = 0; j < t[4]; j++) {
                int32_t other = e->links[flow->first_link + j].channel;
                if (e->channels[other].stamp != stamp) {
                    e->channels[other].stamp = stamp;
                    e->near[near++] = other;
                }
            }
        }
    }
    *flow_count = affected;
    return near;
}

static i128 rounded(i128 numerator, i128 denominator) { return (2 * numerator + denominator) / (2 * denominator); }

/* Max-min fair speeds, as the time that each transfer would take: see podsim/engine/sharing.py. */
static void share(Engine *e, int32_t near, int32_t flow_count) {
    int32_t open = flow_count;
    while (open > 0) {
        Channel *tightest = NULL;
        int32_t kept = 0;
        for (int32_t i = 0; i < near; i++) {
            Channel *channel = e->channels + e->near[i];
            if (channel->weight <= 0) continue;
            e->near[kept++] = e->near[i];
            if (!tightest || channel->weight * tightest->room > tightest->weight * channel->room) tightest = channel;
        }
        near = kept;
        if (!tightest) break;
        i128 weight = tightest->weight;
        i64 room = tightest->room;
        int32_t first_fixed = 0;
        /* All channels that are as tight are settled with what they had before any of them was. */
        for (int32_t i = 0; i < near; i++) {
            Channel *channel = e->channels + e->near[i];
            if (channel->weight * room != weight * channel->room) continue;
            for (int32_t at = channel->first; at >= 0; at = e->links[at].next) {
                Flow *flow = e->flows + e->links[at].flow;
                if (flow->fixed >= 0) continue;
                i128 duration = room ? rounded((i128)transfer_of(e, flow)[2] * weight, room) : NO_SPEED;
                if (room && duration < 1) duration = 1;
                if (duration >= LONGEST) {
                    e->error = TOO_LARGE;
                    return;
                }
                flow->fixed = (i64)duration;
                e->due[e->due_count + first_fixed++] = e->links[at].flow;
            }
        }
        if (!first_fixed || first_fixed == open) break; /* nobody is left to use what room remains */
        for (int32_t i = 0; i < first_fixed; i++) {
            Flow *flow = e->flows + e->due[e->due_count + i];
            const i64 *t = transfer_of(e, flow);
            for (i64 j = 0; j < t[4]; j++) {
                Link *link = e->links + flow->first_link + j;
                Channel *channel = e->channels + link->channel;
                channel->weight -= link->weight;
                if (flow->fixed == NO_SPEED) continue;
                i128 room = channel->room - rounded((i128)link->work << CHANNEL_BITS, flow->fixed);
                channel->room = room < 0 ? 0 : (i64)room;
            }
        }
        open -= first_fixed;
    }
}

/* The kind that takes most room on the channels of a transfer, its own left out; its own if no other is there. */
static int32_t rival_of(Engine *e, Flow *flow) {
    i64 count = e->p->rank_count;
    memset(e->taken, 0, sizeof(i64) * (size_t)count);
    for (i64 i = 0; i < transfer_of(e, flow)[4]; i++) {
        Channel *channel = e->channels + e->links[flow->first_link + i].channel;
        for (int32_t at = channel->first; at >= 0; at = e->links[at].next) {
            Flow *other = e->flows + e->links[at].flow;
            if (other->rank == flow->rank || other->shared == NO_SPEED) continue;
            e->taken[other->rank] += (e->links[at].work << RIVAL_BITS) / other->shared;
        }
    }
    int32_t most = flow->rank;
    for (int32_t i = 0; i < count; i++)
        if (e->taken[i] > (most == flow->rank ? 0 : e->taken[most])) most = i;
    return most;
}

/* What each transfer would take if channels carried no other kind than its own; speeds with all of them are settled. */
static void share_alone(Engine *e, int32_t flow_count) {
    for (int32_t i = 0; i < flow_count; i++) {
        Flow *flow = e->flows + e->affected[i];
        flow->shared = flow->fixed;
        flow->separate = 0;
    }
    for (int32_t i = 0; i < flow_count && !e->error; i++) {
        if (e->flows[e->affected[i]].separate) continue;
        int32_t rank = e->flows[e->affected[i]].rank, near = 0, members = 0;
        u64 stamp = ++e->stamp;
        for (int32_t j = i; j < flow_count; j++) {
            Flow *flow = e->flows + e->affected[j];
            if (flow->rank != rank) continue;
            flow->separate = 1;
            flow->fixed = -1;
            members++;
            for (i64 k = 0; k < transfer_of(e, flow)[4]; k++) {
                Link *link = e->links + flow->first_link + k;
                Channel *channel = e->channels + link->channel;
                if (channel->stamp != stamp) {
                    channel->stamp = stamp;
                    channel->room = channel->capacity;
                    channel->weight = 0;
                    e->near[near++] = link->channel;
                }
                channel->weight += link->weight;
            }
        }
        share(e, near, members);
    }
    for (int32_t i = 0; i < flow_count; i++) {
        Flow *flow = e->flows + e->affected[i];
        flow->alone_next = flow->fixed;
        flow->fixed = flow->shared;
        flow->new_rival = flow->alone_next < flow->shared ? rival_of(e, flow) : 0;
    }
}

static void settle(Engine *e) {
    e->settle = 0;
    for (int32_t i = 0; i < e->due_count; i++) end_transfer(e, e->due[i]);
    e->due_count = 0;
    while (e->heap_count && e->flows[e->heap[0]].finish <= e->now) {
        int32_t flow = e->heap[0];
        heap_remove(e, flow);
        end_transfer(e, flow);
    }
    while (e->next_fault < e->p->slow_channel_count && e->p->slow_channels[3 * e->next_fault] <= e->now) {
        const i64 *fault = e->p->slow_channels + 3 * e->next_fault++;
        e->channels[fault[1]].capacity = fault[2];
        mark_changed(e, (int32_t)fault[1]);
    }
    int32_t flow_count, near = gather(e, &flow_count);
    if (!e->error) share(e, near, flow_count);
    if (!e->error && e->mixed) share_alone(e, flow_count);
    if (e->error) return;
    for (int32_t i = 0; i < flow_count; i++) {
        Flow *flow = e->flows + e->affected[i];
        i64 alone = e->mixed ? flow->alone_next : flow->fixed;
        int32_t rival = e->mixed ? flow->new_rival : 0;
        if (flow->fixed == flow->duration && flow->alone == alone && flow->rival == rival) continue;
        lose(e, e->affected[i]);
        flow->alone = alone;
        flow->rival = rival;
        if (flow->fixed == flow->duration) continue;
        if (flow->duration > 0) flow->left -= (i64)(((i128)(e->now - flow->since) << LEFT_BITS) / flow->duration);
        flow->since = e->now;
        flow->duration = flow->fixed;
        flow->finish = NEVER;
        if (flow->duration != NO_SPEED) {
            i128 rest = ((i128)flow->left * flow->duration + ALL_LEFT - SLACK) >> LEFT_BITS;
            flow->finish = e->now + (i64)rest;
        }
        if (flow->place < 0) {
            if (flow->finish == NEVER) continue;
            flow->place = e->heap_count++;
        }
        heap_settle(e, flow->place, e->affected[i]);
    }
}

/* ---- Lanes ---- */

static u64 mixed(u64 x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* Columns of a noise: first of its table, bits of the table's length, stream, whether values are shares of 2^32. */
static i64 drawn(Engine *e, int32_t lane, i64 number, i64 duration) {
    const i64 *noise = e->p->noises + number * NOISE_COLUMNS;
    u64 visit = (u64)e->visits[(i64)lane * e->p->noise_count + number]++;
    u64 bits = mixed((u64)e->p->seed ^ mixed((u64)noise[2] ^ mixed(visit)));
    i64 value = e->p->tables[noise[0] + (noise[1] ? (i64)(bits >> (64 - noise[1])) : 0)];
    i64 extra = noise[3] ? narrow(e, ((i128)duration * value) >> 32) : value;
    return extra < -duration ? -duration : extra;
}

/* When work ends that would take `duration` at full speed, -1 for never: rows of slow lanes are (lane, start, end,
 * numerator, denominator). */
static i64 slowed(Engine *e, int32_t lane, i64 duration) {
    i64 now = e->now, left = duration;
    for (i64 i = e->lanes[lane].slow_from; i < e->p->slow_lane_count; i++) {
        const i64 *row = e->p->slow_lanes + 5 * i;
        if (row[0] != lane) break;
        if (row[2] <= now) continue;
        if (row[1] > now) {
            i64 before = row[1] - now;
            if (left <= before) return plus(e, now, left);
            left -= before;
            now = row[1];
        }
        if (row[3] == 0) {
            if (row[2] == NEVER) return -1;
            now = row[2];
            continue;
        }
        i128 takes = ((i128)left * row[4] + row[3] - 1) / row[3];
        if (row[2] == NEVER || takes <= row[2] - now) return narrow(e, now + takes);
        left -= (i64)((i128)(row[2] - now) * row[3] / row[4]);
        now = row[2];
    }
    return plus(e, now, left);
}

/* Sleep; 0 if there is nothing to sleep for. */
static int busy(Engine *e, int32_t lane, i64 duration, int steady) {
    i64 end = plus(e, e->now, duration);
    if (!steady && e->lanes[lane].slow_from >= 0) {
        end = slowed(e, lane, duration);
        if (e->error) return 1;
        if (end >= 0) charge(e, lane, e->p->fault_kind, end - e->now - duration, e->lanes[lane].weight);
    }
    if (end == e->now) return 0;
    if (end >= 0) wake_push(e, end, lane);
    return 1;
}

static void wait_charged(Engine *e, int32_t lane, i64 kind) {
    Lane *l = e->lanes + lane;
    charge(e, lane, kind, e->now - l->arrived, l->weight);
}

/* Arrive at a barrier; 1 if the others are still to come. */
static int meets(Engine *e, int32_t lane, i64 barrier) {
    Lane *l = e->lanes + lane;
    l->arrived = e->now;
    if (++e->meet_count[barrier] < e->p->parties[barrier]) {
        l->next_waiting = e->meet_first[barrier];
        e->meet_first[barrier] = lane;
        l->parked = 1;
        e->p->where[lane] = barrier;
        return 1;
    }
    for (int32_t at = e->meet_first[barrier]; at >= 0; at = e->lanes[at].next_waiting) {
        e->lanes[at].parked = 0;
        e->ready[e->ready_count++] = at;
    }
    e->meet_first[barrier] = -1;
    e->meet_count[barrier] = 0;
    return 0;
}

static int takes(Engine *e, int32_t lane, i64 semaphore) {
    e->lanes[lane].arrived = e->now;
    if (e->tokens[semaphore]) {
        e->tokens[semaphore]--;
        return 0;
    }
    e->taker[semaphore] = lane;
    e->lanes[lane].parked = 1;
    e->p->where[lane] = e->p->barrier_count + semaphore;
    return 1;
}

static void gives(Engine *e, i64 semaphore) {
    if (e->taker[semaphore] < 0) e->tokens[semaphore] = plus(e, e->tokens[semaphore], 1);
    else {
        e->lanes[e->taker[semaphore]].parked = 0;
        e->ready[e->ready_count++] = e->taker[semaphore];
        e->taker[semaphore] = -1;
    }
}

/* Start transfers as their latencies pass; 1 while there is something to wait for. */
static int sends(Engine *e, int32_t lane, const i64 *op) {
    Lane *l = e->lanes + lane;
    while (l->sent < op[2]) {
        i64 transfer = op[1] + l->sent;
        i64 start = plus(e, l->exchange_begin, e->p->transfers[transfer * TRANSFER_COLUMNS]);
        if (e->error) return 1;
        if (start > e->now) {
            wake_push(e, start, lane);
            return 1;
        }
        start_transfer(e, lane, l->sent, (int32_t)transfer);
        l->sent++;
    }
    l->state = SENDING;
    e->p->where[lane] = -2;
    return 1;
}

static const i64 *group_of(Engine *e, Lane *l) { return e->p->groups + (i64)l->group * GROUP_COLUMNS; }

/* Columns of a group: first lane, lanes, first phase, phases, warm-up, accounted, turns; of_lane starts at phase 0 of lane 0. */
static const i64 *sequence_of(Engine *e, int32_t lane) {
    Lane *l = e->lanes + lane;
    const i64 *group = group_of(e, l);
    i64 row = e->p->bases[l->group] + (lane - group[0]) * group[3] + l->phase;
    return e->p->sequences + e->p->of_lane[row] * SEQUENCE_COLUMNS;
}

/* Lanes that wait for others, and have done so for a whole repetition of all others, wait through further ones: whoever
 * would go on with them would have come in that repetition, or would itself be waiting. */
static int waits_on(Engine *e, const Lane *l) { return l->parked && l->arrived < e->before.time; }

/* Run the next repetition for all that are left: nobody is in the middle of one. */
static void leap(Engine *e, i64 left) {
    i64 events = 0, found = 0;
    for (i64 i = 0; i < e->p->lane_count; i++) {
        const Lane *l = e->lanes + i;
        if (l->ended || waits_on(e, l)) continue;
        i64 more = e->round_events[(sequence_of(e, (int32_t)i) - e->p->sequences) / SEQUENCE_COLUMNS];
        if (l->begin != e->now || l->round != left || !more) return;
        events = plus(e, events, more);
        found++;
    }
    if (found != e->begun.count) return;
    e->events = plus(e, e->events, times(e, left - 1, events));
    e->begun.count = 0; /* what begins next belongs to another phase */
    for (i64 i = 0; i < e->p->lane_count; i++) {
        Lane *l = e->lanes + i;
        if (l->ended || waits_on(e, l)) continue;
        l->weight = left;
        l->round = 1;
    }
}

/* All lanes that do not wait began a repetition together, and now begin the next one together: so they will the others,
 * since nothing is under way and nothing depends on the time. What some have begun at this instant has taken no time as
 * yet. As many began both, and none of the first can have ended, so they are the same. */
static void together(Engine *e, i64 left) {
    if (e->begun.time != e->now || e->begun.left != left) {
        e->before = e->begun;
        e->begun.time = e->now;
        e->begun.left = left;
        e->begun.count = 0;
    }
    if (++e->begun.count == e->before.count && left > 1 && e->before.left == left + 1) leap(e, left);
}

static void begin_round(Engine *e, int32_t lane) {
    const i64 *sequence = sequence_of(e, lane);
    Lane *l = e->lanes + lane;
    l->op = (int32_t)sequence[0];
    l->op_end = (int32_t)(sequence[0] + sequence[1]);
    l->begin = e->now;
    together(e, l->round);
}

static void begin_phase(Engine *e, int32_t lane) {
    Lane *l = e->lanes + lane;
    const i64 *group = group_of(e, l), *phase = e->p->phases + (group[2] + l->phase) * 2;
    if (l->turn == 0 && l->phase == group[4]) {
        memset(e->p->accounts + (i64)lane * e->p->kind_count, 0, sizeof(i64) * (size_t)e->p->kind_count);
        i64 pairs = e->p->rank_count * e->p->rank_count;
        memset(e->p->shared + (i64)lane * pairs, 0, sizeof(i64) * (size_t)pairs);
        if (group[5]) e->p->summary[0] = e->now;
    }
    const i64 *sequence = sequence_of(e, lane);
    for (i64 i = 0; i < sequence[3]; i++) {
        const i64 *row = e->p->charges + (sequence[2] + i) * 2;
        charge(e, lane, row[0], row[1], phase[0]);
    }
    l->round = e->p->explicit_ ? phase[0] : 1;
    l->weight = e->p->explicit_ ? 1 : phase[0];
    l->phase_begin = e->now;
    begin_round(e, lane);
}

static void end_phase(Engine *e, int32_t lane) {
    Lane *l = e->lanes + lane;
    const i64 *group = group_of(e, l);
    if (l->turn == 0 && l->phase >= group[4] && group[5] && lane == group[0]) {
        i64 *begins = e->p->begins + (group[2] + l->phase) * 2;
        begins[0] = l->phase_begin;
        begins[1] = e->now;
    }
    if (++l->phase == group[3]) {
        if (lane == group[0] && e->p->marks) e->p->marks[l->group * e->p->summary[3] + l->turn] = e->now;
        l->phase = 0;
        if (++l->turn == group[6]) {
            l->ended = 1;
            e->p->where[lane] = -3;
            if (e->now > e->p->summary[1]) e->p->summary[1] = e->now;
            return;
        }
    }
    begin_phase(e, lane);
}

/* Account what an exchange lost to other kinds, all of it to the one to which its last transfer lost most. */
static void contended(Engine *e, int32_t lane, i64 time) {
    Lane *l = e->lanes + lane;
    i64 count = e->p->rank_count, most = 0, *lost = e->lost + l->last_flow * count;
    for (i64 i = 1; i < count; i++)
        if (lost[i] > lost[most]) most = i;
    charge(e, lane, e->p->contention_kind, time, l->weight);
    i64 *shared = e->p->shared + ((i64)lane * count + e->flows[l->last_flow].rank) * count + most;
    *shared = plus(e, *shared, times(e, time, l->weight));
}

/* What follows a wait or an exchange that has ended. */
static void resume(Engine *e, int32_t lane) {
    Lane *l = e->lanes + lane;
    const i64 *op = e->p->ops + 3 * (i64)l->op;
    e->p->where[lane] = -1;
    switch (l->state) {
    case ARRIVED:
    case TAKEN:
        wait_charged(e, lane, op[2]);
        l->op++;
        break;
    case SENDING: {
        i64 kind = e->p->transfers[(i64)l->last_transfer * TRANSFER_COLUMNS + 1], lost = e->now - l->alone_end;
        charge(e, lane, kind, e->now - l->exchange_begin - lost, l->weight);
        if (lost) contended(e, lane, lost);
        l->op++;
        break;
    }
    case JOINED:
        wait_charged(e, lane, e->p->phases[(group_of(e, l)[2] + l->phase) * 2 + 1]);
        l->round--;
        break;
    default:
        break;
    }
}

/* Runs a lane until it has to wait. */
static void run_lane(Engine *e, int32_t lane) {
    Lane *l = e->lanes + lane;
    int joined = l->state == JOINED;
    if (l->state == RESTED) {
        l->state = RUN;
        end_phase(e, lane);
    } else if (l->state != RUN) {
        resume(e, lane);
        l->state = RUN;
    }
    while (!l->ended && !e->error) {
        if (joined) {
            joined = 0;
            if (l->round > 0) {
                begin_round(e, lane);
            } else if (l->weight > 1) {
                l->state = RESTED;
                i64 rest = times(e, l->weight - 1, e->now - l->begin);
                if (rest) {
                    wake_push(e, plus(e, e->now, rest), lane);
                    return;
                }
                l->state = RUN;
                end_phase(e, lane);
            } else {
                end_phase(e, lane);
            }
            continue;
        }
        if (l->op == l->op_end) {
            e->events++;
            l->state = JOINED;
            if (meets(e, lane, e->p->barrier_count - e->p->group_count + l->group)) return;
            resume(e, lane);
            l->state = RUN;
            joined = 1;
            continue;
        }
        const i64 *op = e->p->ops + 3 * (i64)l->op;
        if (op[0] != SEND || l->sent < 0) e->events++;
        switch (op[0]) {
        case WORK:
        case STEADY:
            l->op++;
            if (busy(e, lane, op[1], op[0] == STEADY)) return;
            break;
        case NOISY:
        case STEADY_NOISY: {
            i64 extra = drawn(e, lane, op[2], op[1]);
            charge(e, lane, e->p->jitter_kind, extra, l->weight);
            l->op++;
            if (busy(e, lane, plus(e, op[1], extra), op[0] == STEADY_NOISY)) return;
            break;
        }
        case MEET:
        case TAKE:
            l->state = op[0] == MEET ? ARRIVED : TAKEN;
            if (op[0] == MEET ? meets(e, lane, op[1]) : takes(e, lane, op[1])) return;
            l->state = RUN;
            l->op++;
            break;
        case GIVE:
            gives(e, op[1]);
            l->op++;
            break;
        case SEND:
            if (l->sent < 0) {
                l->sent = 0;
                l->exchange_begin = e->now;
                l->open = (int32_t)op[2];
                l->last_end = l->alone_end = -1;
            }
            sends(e, lane, op);
            if (l->state == SENDING) l->sent = -1;
            return;
        }
    }
}

static int more(Engine *e) {
    i64 next = NEVER;
    if (e->wake_count) next = e->wakes[0].time;
    if (e->heap_count && e->flows[e->heap[0]].finish < next) next = e->flows[e->heap[0]].finish;
    if (next == NEVER && e->next_fault >= e->p->slow_channel_count) return 0;
    if (e->next_fault < e->p->slow_channel_count) {
        i64 fault = e->p->slow_channels[3 * e->next_fault];
        /* A channel that gets faster may be what others wait for; after the last lane it matters no more. */
        if (fault < next) next = fault;
    }
    if (next > LONGEST) {
        e->error = TOO_LARGE;
        return 0;
    }
    e->now = next;
    while (e->wake_count && e->wakes[0].time == next) e->ready[e->ready_count++] = wake_pop(e);
    if (e->heap_count && e->flows[e->heap[0]].finish == next) e->settle = 1;
    if (e->next_fault < e->p->slow_channel_count && e->p->slow_channels[3 * e->next_fault] == next) e->settle = 1;
    return 1;
}

static int ended(Engine *e) {
    for (i64 i = 0; i < e->p->lane_count; i++)
        if (!e->lanes[i].ended) return 0;
    return 1;
}

static int told(PyObject *watch, i64 intervals) {
    if (PyErr_CheckSignals()) return 0;
    if (watch == Py_None) return 1;
    PyObject *answer = PyObject_CallFunction(watch, "L", (long long)intervals);
    Py_XDECREF(answer);
    return answer != NULL;
}

static void loop(Engine *e, PyObject *watch, i64 interval) {
    i64 next = interval;
    for (;;) {
        while (e->ready_count && !e->error) run_lane(e, e->ready[--e->ready_count]);
        if (e->settle && !e->error) {
            settle(e);
            continue;
        }
        if (e->error) return;
        if (e->events >= next) {
            i64 passed = (e->events - next) / interval + 1;
            next = plus(e, next, passed * interval);
            if (!told(watch, passed)) {
                e->error = INTERRUPTED;
                return;
            }
        }
        if (e->next_fault < e->p->slow_channel_count && !e->wake_count && !e->heap_count && ended(e)) return;
        if (!more(e)) return;
    }
}

static void *rows(size_t count, size_t size) { return calloc(count ? count : 1, size); }

/* Steps, transfers and the meeting at the end; 0 if what is drawn, tokens or slow parts may make rounds differ. */
static i64 events_of(Program *p, const i64 *sequence) {
    i64 events = 1 + sequence[1];
    if (p->slow_lane_count || p->slow_channel_count) return 0;
    for (const i64 *op = p->ops + 3 * sequence[0]; op < p->ops + 3 * (sequence[0] + sequence[1]); op += 3) {
        if (op[0] == TAKE || op[0] == GIVE || op[0] == NOISY || op[0] == STEADY_NOISY) return 0;
        if (op[0] == SEND) events += op[2];
    }
    return events;
}

static void prepare(Engine *e) {
    Program *p = e->p;
    i64 most_flows = 1, most_links = 1;
    for (i64 s = 0; s < p->summary[4]; s++)
        for (i64 o = p->sequences[s * SEQUENCE_COLUMNS]; o < p->sequences[s * SEQUENCE_COLUMNS] + p->sequences[s * SEQUENCE_COLUMNS + 1]; o++)
            if (p->ops[3 * o] == SEND) {
                if (p->ops[3 * o + 2] > most_flows) most_flows = p->ops[3 * o + 2];
                for (i64 t = 0; t < p->ops[3 * o + 2]; t++) {
                    i64 count = p->transfers[(p->ops[3 * o + 1] + t) * TRANSFER_COLUMNS + 4];
                    if (count > most_links) most_links = count;
                }
            }
    i64 flows = times(e, p->lane_count, most_flows), links = times(e, flows, most_links);
    if (e->error || links > INT32_MAX) { /* flows and links are numbered in 32 bits */
        e->error = TOO_LARGE;
        return;
    }
    e->most_flows = (int32_t)most_flows;
    e->most_links = (int32_t)most_links;
    e->lanes = rows((size_t)p->lane_count, sizeof(Lane));
    e->flows = rows((size_t)flows, sizeof(Flow));
    e->links = rows((size_t)links, sizeof(Link));
    e->channels = rows((size_t)p->channel_count, sizeof(Channel));
    e->heap = rows((size_t)flows, sizeof(int32_t));
    e->wakes = rows((size_t)p->lane_count, sizeof(Wake));
    e->ready = rows((size_t)p->lane_count, sizeof(int32_t));
    e->changed = rows((size_t)p->channel_count, sizeof(int32_t));
    e->near = rows((size_t)p->channel_count, sizeof(int32_t));
    e->affected = rows((size_t)flows, sizeof(int32_t));
    e->due = rows((size_t)flows * 2, sizeof(int32_t));
    e->meet_first = rows((size_t)p->barrier_count, sizeof(int32_t));
    e->meet_count = rows((size_t)p->barrier_count, sizeof(int32_t));
    e->taker = rows((size_t)p->semaphore_count, sizeof(int32_t));
    e->tokens = rows((size_t)p->semaphore_count, sizeof(i64));
    e->visits = rows((size_t)(p->lane_count * p->noise_count), sizeof(i64));
    e->lost = rows((size_t)(flows * p->rank_count), sizeof(i64));
    e->taken = rows((size_t)p->rank_count, sizeof(i64));
    e->round_events = rows((size_t)p->summary[4], sizeof(i64));
    if (!e->lanes || !e->flows || !e->links || !e->channels || !e->heap || !e->wakes || !e->ready || !e->changed || !e->near ||
        !e->affected || !e->due || !e->meet_first || !e->meet_count || !e->taker || !e->tokens || !e->visits || !e->round_events ||
        !e->lost || !e->taken) {
        e->error = NO_MEMORY;
        return;
    }
    for (i64 i = 0; i < flows; i++) {
        e->flows[i].place = -1;
        e->flows[i].first_link = (int32_t)(i * most_links);
        for (i64 j = 0; j < most_links; j++) e->links[i * most_links + j].flow = (int32_t)i;
    }
    for (i64 i = 0; i < p->channel_count; i++) {
        e->channels[i].first = -1;
        e->channels[i].capacity = WHOLE;
    }
    for (i64 i = 0; i < p->barrier_count; i++) e->meet_first[i] = -1;
    for (i64 i = 0; i < p->semaphore_count; i++) {
        e->taker[i] = -1;
        e->tokens[i] = p->tokens[i];
    }
    for (i64 i = 0; i < p->lane_count; i++) e->lanes[i].slow_from = e->lanes[i].sent = -1;
    for (i64 i = p->slow_lane_count - 1; i >= 0; i--) e->lanes[p->slow_lanes[5 * i]].slow_from = (int32_t)i;
    for (i64 s = 0; s < p->summary[4]; s++) e->round_events[s] = events_of(p, p->sequences + s * SEQUENCE_COLUMNS);
    e->begun.time = -1;
    for (i64 g = 0; g < p->group_count; g++) {
        const i64 *group = p->groups + g * GROUP_COLUMNS;
        for (i64 i = group[0]; i < group[0] + group[1]; i++) {
            e->lanes[i].group = (int32_t)g;
            p->where[i] = -1;
            if (group[3]) {
                begin_phase(e, (int32_t)i);
                e->ready[e->ready_count++] = (int32_t)i;
            } else {
                e->lanes[i].ended = 1;
                p->where[i] = -3;
            }
        }
    }
}

static void release(Engine *e) {
    void *all[] = {e->lanes, e->flows, e->links, e->channels, e->heap, e->wakes, e->ready, e->changed, e->near, e->affected,
                   e->due, e->meet_first, e->meet_count, e->taker, e->tokens, e->visits, e->round_events, e->lost, e->taken};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static const char *BUFFERS = "ops sequences charges transfers loads groups phases of_lane tokens parties bases noises tables "
                             "slow_lanes slow_channels ranks accounts begins marks summary where shared sizes";
enum { INPUTS = 16, OUTPUTS = 6, ALL = 23 };

PyDoc_STRVAR(run_doc,
             "run(arrays, watch, interval)\n--\n\n"
             "Run a program of flat arrays; podsim/engine/compiled.py says which. Returns 0 if all lanes came to their\n"
             "end, 1 if some wait for ever, 2 if times are beyond what the arrays can hold.");

static PyObject *run(PyObject *module, PyObject *args) {
    PyObject *arrays, *watch;
    long long interval;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOL", &arrays, &watch, &interval)) return NULL;
    if (PyTuple_Size(arrays) != ALL) {
        PyErr_Format(PyExc_ValueError, "give %d arrays: %s", ALL, BUFFERS);
        return NULL;
    }
    Py_buffer views[ALL];
    int held = 0;
    for (; held < ALL; held++) {
        int flags = held >= INPUTS && held < INPUTS + OUTPUTS ? PyBUF_WRITABLE : PyBUF_SIMPLE;
        if (PyObject_GetBuffer(PyTuple_GetItem(arrays, held), &views[held], flags)) break;
    }
    PyObject *result = NULL;
    if (held == ALL) {
        const i64 *b[ALL];
        for (int i = 0; i < ALL; i++) b[i] = views[i].buf;
        const i64 *sizes = b[22];
        Program p = {b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15],
                     sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], sizes[8], sizes[9],
                     sizes[10], sizes[11], sizes[12], sizes[13], sizes[14],
                     views[16].buf, views[17].buf, views[18].len ? views[18].buf : NULL, views[19].buf, views[20].buf,
                     views[21].buf};
        Engine e;
        memset(&e, 0, sizeof e);
        e.p = &p;
        prepare(&e);
        if (!e.error) loop(&e, watch, interval);
        p.summary[2] = e.events;
        if (e.error == NO_MEMORY) PyErr_NoMemory();
        else if (e.error != INTERRUPTED) result = PyLong_FromLong(e.error ? e.error : ended(&e) ? OK : STUCK);
        release(&e);
    }
    while (held) PyBuffer_Release(&views[--held]);
    return result;
}

/* ---- Serving: requests under load ----
 *
 * podsim/runs/serving/server.py holds the rules, and the readable form of what is done here. Whatever does not fit into
 * 64 bits raises OverflowError, and the requests are served in Python. */

/* Time of no, one, two, … decode steps of a batch, from the first context on. [ps] */
typedef struct { i64 first, count, room, *sums; } Sums;
typedef struct { i64 pace, batch, prompt, time; } Prefill;

typedef struct {
    i64 due, since, busy, steps, stretch, context, running;
    i64 joining, joining_count; /* requests that are taken in follow one another */
    int32_t members, copy, pace, others;
    int8_t idle, decides;
} Slot;

typedef struct {
    i64 count, size, wait, stays, copies, paces, slot_count, most; /* most: sequences of a batch that can be there */
    i64 come, taken;                                               /* requests up to these have arrived, and started */
    i64 known;                                                     /* up to this it is known when they arrive */
    const i64 *prompt, *output, *think;                            /* think: none where requests come by themselves */
    i64 *arrival, *start, *first, *last;
    i64 *end, *offset;  /* of a request: steps of its slot after which it is done; its context minus those so far */
    int32_t *next;      /* of a request: the next one in its batch, or -1 */
    int32_t *deciding, *running, *before;
    Slot *slots;
    Sums *sums;
    Prefill *prefills;
    PyObject *ask_prefill, *ask_decode;
    int failed; /* a Python error is set */
} Server;

enum { PREFILLS = 4096, LOOKS_EVERY = 1 << 16 };

static i64 after(Server *s, i64 a, i64 b) {
    i64 sum;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    if (!s->failed) PyErr_SetString(PyExc_OverflowError, "a time beyond 64 bits");
    s->failed = 1;
    return NEVER;
}

/* Ask for the steps at contexts from one to another, which adjoin those that are known. */
static void extend(Server *s, Sums *t, i64 pace, i64 batch, i64 from, i64 to) {
    i64 more = to - from;
    PyObject *times = PyObject_CallFunction(s->ask_decode, "LLLL", (long long)pace, (long long)batch, (long long)from, (long long)to);
    Py_buffer view;
    if (!times || PyObject_GetBuffer(times, &view, PyBUF_SIMPLE)) {
        Py_XDECREF(times);
        s->failed = 1;
        return;
    }
    if (view.len != more * (i64)sizeof(i64)) {
        PyErr_Format(PyExc_ValueError, "give %lld times of steps", (long long)more);
        s->failed = 1;
    } else if (t->count + more >= t->room) {
        i64 room = 2 * (t->count + more) + 1;
        i64 *sums = realloc(t->sums, (size_t)room * sizeof(i64));
        if (sums) t->sums = sums, t->room = room;
        else PyErr_NoMemory(), s->failed = 1;
    }
    if (!s->failed) {
        const i64 *each = view.buf;
        if (!t->count) t->first = from, t->sums[0] = 0;
        if (from < t->first) {
            memmove(t->sums + more, t->sums, (size_t)(t->count + 1) * sizeof(i64));
            t->first = from;
            t->sums[0] = 0;
            for (i64 i = 0; i < more - 1; i++) t->sums[i + 1] = after(s, t->sums[i], each[i]);
            i64 shift = after(s, t->sums[more - 1], each[more - 1]);
            for (i64 i = more; i <= t->count + more; i++) t->sums[i] = after(s, t->sums[i], shift);
        } else {
            for (i64 i = 0; i < more; i++) t->sums[t->count + i + 1] = after(s, t->sums[t->count + i], each[i]);
        }
        t->count += more;
    }
    PyBuffer_Release(&view);
    Py_DECREF(times);
}

static i64 prefill_time(Server *s, i64 pace, i64 batch, i64 prompt) {
    Prefill *known = s->prefills + (u64)(prompt + 31 * batch + 1021 * pace) % PREFILLS;
    if (known->pace == pace && known->batch == batch && known->prompt == prompt) return known->time;
    PyObject *time = PyObject_CallFunction(s->ask_prefill, "LLL", (long long)pace, (long long)batch, (long long)prompt);
    i64 time_ps = time ? PyLong_AsLongLong(time) : -1;
    Py_XDECREF(time);
    if (time_ps < 0) {
        s->failed = 1;
        return 0;
    }
    *known = (Prefill){pace, batch, prompt, time_ps};
    return time_ps;
}

static Sums *sums_of(Server *s, Slot *slot) { return s->sums + slot->pace * (s->most + 1) + slot->running; }

/* When the stretch of decode steps of a slot ends. */
static i64 stretch_end(Server *s, Slot *slot) {
    Sums *t = sums_of(s, slot);
    i64 from = slot->context - t->first;
    return after(s, slot->since, t->sums[from + slot->stretch] - t->sums[from]);
}

/* A user who has the last token of a request thinks, then sends the next one: arrivals stay in order, and those
 * beyond the last request never come. */
static void come_again(Server *s, i64 n, i64 now) {
    if (!s->think) return;
    i64 at = after(s, now, s->think[n]), place = s->known;
    if (place < s->count) s->known++;
    else if (at >= s->arrival[--place]) return;
    for (; place > s->come && s->arrival[place - 1] > at; place--) s->arrival[place] = s->arrival[place - 1];
    s->arrival[place] = at;
}

/* Account for what has ended; then take in those who wait, or else decode. */
static void decide(Server *s, Slot *slot, i64 now) {
    if (!slot->idle) {
        slot->busy += now - slot->since;
        for (i64 n = slot->joining; n < slot->joining + slot->joining_count; n++) {
            s->first[n] = now;
            s->end[n] = slot->steps + s->output[n] - 1;
            s->offset[n] = s->prompt[n] + 1 - slot->steps;
            s->next[n] = slot->members;
            slot->members = (int32_t)n;
        }
        slot->joining_count = 0;
        slot->steps += slot->stretch;
    }
    i64 kept = 0, left = 0, longest = INT64_MIN, soonest = NEVER;
    for (int32_t *link = &slot->members; *link >= 0;) {
        int32_t n = *link;
        if (s->end[n] == slot->steps) {
            s->last[n] = now;
            come_again(s, n, now);
        }
        if (s->end[n] > slot->steps) {
            left++;
            if (s->end[n] < soonest) soonest = s->end[n];
        } else if (!s->stays) {
            *link = s->next[n];
            continue;
        }
        kept++;
        if (s->offset[n] > longest) longest = s->offset[n];
        link = &s->next[n];
    }
    if (!left) slot->members = -1, kept = 0;
    slot->running = kept;
    slot->stretch = 0;
    i64 waiting = s->come - s->taken, room = s->stays && kept ? 0 : s->size - kept;
    i64 deadline = waiting ? after(s, s->arrival[s->taken], s->wait) : NEVER;
    if (room && waiting && (waiting >= s->size || deadline <= now)) {
        slot->joining = s->taken;
        slot->joining_count = waiting < room ? waiting : room;
        for (i64 n = slot->joining; n < slot->joining + slot->joining_count; n++) s->start[n] = now;
        s->taken += slot->joining_count;
        slot->idle = 0;
    } else if (kept) {
        slot->context = slot->steps + longest;
        slot->stretch = soonest - slot->steps;
    } else {
        slot->idle = 1;
        slot->due = deadline;
    }
}

/* Start what has been decided, at the pace of so many batches in flight. */
static void begin(Server *s, Slot *slot, i64 now) {
    if (slot->idle) return;
    slot->since = now;
    slot->pace = s->running[slot->copy] - 1;
    if (slot->joining_count) {
        i64 longest = 0;
        for (i64 n = slot->joining; n < slot->joining + slot->joining_count; n++)
            if (s->prompt[n] > longest) longest = s->prompt[n];
        slot->due = after(s, now, prefill_time(s, slot->pace, slot->joining_count, longest));
        return;
    }
    Sums *t = sums_of(s, slot);
    i64 stop = slot->context + slot->stretch;
    if (!t->count) extend(s, t, slot->pace, slot->running, slot->context, stop);
    if (!s->failed && stop > t->first + t->count) extend(s, t, slot->pace, slot->running, t->first + t->count, stop);
    if (!s->failed && slot->context < t->first) extend(s, t, slot->pace, slot->running, slot->context, t->first);
    if (!s->failed) slot->due = stretch_end(s, slot);
}

/* Let a stretch of decode steps end with the step under way. */
static void cut(Server *s, Slot *slot, i64 now) {
    if (slot->stretch <= 1) return;
    Sums *t = sums_of(s, slot);
    const i64 *from = t->sums + (slot->context - t->first);
    i64 low = 0, high = slot->stretch, elapsed = now - slot->since;
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (from[middle] - from[0] < elapsed) low = middle + 1;
        else high = middle;
    }
    slot->stretch = low;
    slot->due = stretch_end(s, slot);
}

static void serve_all(Server *s, PyObject *look, i64 portion) {
    i64 looks = 0, looked = 0;
    while (!s->failed) {
        i64 now = s->come < s->count ? s->arrival[s->come] : NEVER, arrived = s->come, count = 0;
        for (i64 i = 0; i < s->slot_count; i++)
            if (s->slots[i].due < now) now = s->slots[i].due;
        if (now == NEVER) return;
        for (; s->come < s->count && s->arrival[s->come] == now; s->come++) {
            if (look == Py_None || s->come < looked) continue;
            PyObject *seen = PyObject_CallFunction(look, NULL);
            Py_XDECREF(seen);
            if (!seen) s->failed = 1;
            looked += portion;
        }
        if (s->failed || (++looks % LOOKS_EVERY == 0 && PyErr_CheckSignals())) return;
        for (i64 i = 0; i < s->slot_count; i++) {
            Slot *slot = s->slots + i;
            if (s->come > arrived && !s->stays && slot->running < s->size) cut(s, slot, now);
            slot->decides = slot->due <= now || (slot->idle && s->come > s->taken);
            if (!slot->decides) continue;
            slot->others = s->running[slot->copy] - !slot->idle;
            s->before[slot->copy] = s->running[slot->copy];
            s->deciding[count++] = (int32_t)i;
        }
        for (i64 others = 0; others < s->paces; others++)
            for (i64 i = 0; i < count; i++) {
                Slot *slot = s->slots + s->deciding[i];
                if (slot->others != others) continue;
                int8_t idle = slot->idle;
                decide(s, slot, now);
                s->running[slot->copy] += idle - slot->idle;
            }
        for (i64 i = 0; i < count && !s->failed; i++) begin(s, s->slots + s->deciding[i], now);
        for (i64 i = 0; i < count && !s->failed; i++) {
            int32_t copy = s->slots[s->deciding[i]].copy;
            if (s->running[copy] == s->before[copy]) continue;
            for (i64 j = copy; j < s->slot_count; j += s->copies)
                if (!s->slots[j].decides) cut(s, s->slots + j, now);
        }
    }
}

PyDoc_STRVAR(serve_doc,
             "serve(arrays, sizes, prefill, decode, look, portion)\n--\n\n"
             "Serve requests under load; podsim/runs/serving/server.py says by which rules. `arrays` are prompts, outputs and\n"
             "how long users think behind each request, if users send them; arrivals, which are filled in as users come\n"
             "again; to be filled, starts, first tokens, last tokens and the working time of each slot; `sizes` are\n"
             "(size, longest wait, whether sequences stay, copies, paces). `prefill(pace, batch, tokens)` returns a time,\n"
             "`decode(pace, batch, first, stop)` a buffer of times. `look` is called before each portion of requests.");

static PyObject *serve(PyObject *module, PyObject *args) {
    enum { READ = 3, ARRIVAL = 3, BUSY = 7, BUFFERS_OF_SERVING = 8 };
    PyObject *arrays, *look;
    long long size, wait, stays, copies, paces, portion;
    Server s;
    (void)module;
    memset(&s, 0, sizeof s);
    if (!PyArg_ParseTuple(args, "O(LLLLL)OOOL", &arrays, &size, &wait, &stays, &copies, &paces, &s.ask_prefill,
                          &s.ask_decode, &look, &portion)) return NULL;
    if (PyTuple_Size(arrays) != BUFFERS_OF_SERVING) {
        PyErr_SetString(PyExc_ValueError, "give prompts, outputs, thoughts, arrivals, starts, first and last tokens, working times");
        return NULL;
    }
    Py_buffer views[BUFFERS_OF_SERVING];
    int held = 0, fits = 1;
    for (; held < BUFFERS_OF_SERVING; held++)
        if (PyObject_GetBuffer(PyTuple_GetItem(arrays, held), &views[held], held < READ ? PyBUF_SIMPLE : PyBUF_WRITABLE)) break;
    if (held == BUFFERS_OF_SERVING) {
        s.size = size, s.wait = wait, s.stays = stays, s.copies = copies, s.paces = paces;
        s.count = views[0].len / (i64)sizeof(i64);
        s.slot_count = views[BUSY].len / (i64)sizeof(i64);
        s.most = size < s.count ? size : s.count;
        for (int i = 1; i < BUSY; i++) fits &= views[i].len == views[0].len || (i == READ - 1 && !views[i].len);
        fits &= copies > 0 && paces > 0 && size > 0 && portion > 0 && s.count <= INT32_MAX && s.slot_count == copies * paces;
        if (!fits) PyErr_SetString(PyExc_ValueError, "arrays of unequal lengths, or sizes below one");
    }
    if (held == BUFFERS_OF_SERVING && fits) {
        s.prompt = views[0].buf, s.output = views[1].buf, s.think = views[2].len ? views[2].buf : NULL;
        s.arrival = views[ARRIVAL].buf, s.start = views[4].buf, s.first = views[5].buf, s.last = views[6].buf;
        while (s.known < s.count && s.arrival[s.known] != NEVER) s.known++;
        s.end = rows((size_t)s.count, sizeof(i64));
        s.offset = rows((size_t)s.count, sizeof(i64));
        s.next = rows((size_t)s.count, sizeof(int32_t));
        s.deciding = rows((size_t)s.slot_count, sizeof(int32_t));
        s.running = rows((size_t)copies, sizeof(int32_t));
        s.before = rows((size_t)copies, sizeof(int32_t));
        s.slots = rows((size_t)s.slot_count, sizeof(Slot));
        s.sums = rows((size_t)(paces * (s.most + 1)), sizeof(Sums));
        s.prefills = rows(PREFILLS, sizeof(Prefill));
        if (!s.end || !s.offset || !s.next || !s.deciding || !s.running || !s.before || !s.slots || !s.sums || !s.prefills) {
            PyErr_NoMemory();
        } else {
            for (i64 i = 0; i < s.slot_count; i++) {
                s.slots[i].due = NEVER;
                s.slots[i].members = -1;
                s.slots[i].idle = 1;
                s.slots[i].copy = (int32_t)(i % copies); /* the first slots of all copies come before the second ones */
            }
            serve_all(&s, look, portion);
            for (i64 i = 0; i < s.slot_count; i++) ((i64 *)views[BUSY].buf)[i] = s.slots[i].busy;
        }
        for (i64 i = 0; s.sums && i < paces * (s.most + 1); i++) free(s.sums[i].sums);
        void *all[] = {s.end, s.offset, s.next, s.deciding, s.running, s.before, s.slots, s.sums, s.prefills};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    }
    while (held) PyBuffer_Release(&views[--held]);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"run", run, METH_VARARGS, run_doc}, {"serve", serve, METH_VARARGS, serve_doc}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_core", "The compiled engine.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModule_Create(&definition); }
