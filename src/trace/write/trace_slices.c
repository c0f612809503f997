/* SPDX-License-Identifier: Apache-2.0 */
/* The writer's slices: Perfetto's track events on the tracks of threads. */
#include <string.h>

#include "pb_field_numbers.h"
#include "trace.pb-c.h"
#include "trace/write/writer_state.h"

typedef Perfetto__Protos__TrackEvent TrackEvent;

#define CATEGORY "context"
#define DOUBT_NAME "end"

int trace_writer_thread_track(struct trace_writer *writer, uint64_t track,
                              const struct trace_thread *thread)
{
    Perfetto__Protos__ThreadDescriptor place = PERFETTO__PROTOS__THREAD_DESCRIPTOR__INIT;
    Perfetto__Protos__TrackDescriptor descriptor = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
    place.has_pid = place.has_tid = descriptor.has_uuid = true;
    place.pid = thread->pid;
    place.tid = thread->tid;
    place.thread_name = (char *)thread->name;
    descriptor.uuid = track;
    descriptor.thread = &place;
    return packet_write_message(writer, PB_TRACE_PACKET_TRACK_DESCRIPTOR, &descriptor.base);
}

static int write_event(struct trace_writer *writer, uint64_t boottime_ns, const TrackEvent *event)
{
    packet_begin(writer, boottime_ns, SEQUENCE_NEEDS_INTERNED);
    if (!writer->for_service)
        packet_put_interned(writer);
    proto_put_message(&writer->packet, PB_TRACE_PACKET_TRACK_EVENT, &event->base);
    return packet_end_soon(writer);
}

int trace_writer_slice_begin(struct trace_writer *writer, uint64_t track, uint64_t boottime_ns,
                             const char *name)
{
    TrackEvent event = PERFETTO__PROTOS__TRACK_EVENT__INIT;
    uint64_t category_id;
    char *category = (char *)CATEGORY;
    event.has_type = event.has_track_uuid = true;
    event.type = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
    event.track_uuid = track;
    /* The service may lose the packet with an interned name. */
    if (writer->for_service) {
        event.name = (char *)name;
        event.categories = &category;
        event.n_categories = 1;
        return write_event(writer, boottime_ns, &event);
    }
    category_id =
        packet_intern_string(writer, &writer->event_categories, PB_INTERNED_DATA_EVENT_CATEGORIES,
                             CATEGORY, strlen(CATEGORY));
    event.name_iid = packet_intern_string(writer, &writer->event_names,
                                          PB_INTERNED_DATA_EVENT_NAMES, name, strlen(name));
    event.has_name_iid = true;
    event.category_iids = &category_id;
    event.n_category_iids = 1;
    return write_event(writer, boottime_ns, &event);
}

int trace_writer_slice_end(struct trace_writer *writer, uint64_t track, uint64_t boottime_ns,
                           const char *doubt)
{
    TrackEvent event = PERFETTO__PROTOS__TRACK_EVENT__INIT;
    Perfetto__Protos__DebugAnnotation remark = PERFETTO__PROTOS__DEBUG_ANNOTATION__INIT;
    Perfetto__Protos__DebugAnnotation *remarks[] = {&remark};
    remark.name = (char *)DOUBT_NAME;
    remark.string_value = (char *)doubt;
    event.has_type = event.has_track_uuid = true;
    event.type = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_END;
    event.track_uuid = track;
    event.debug_annotations = remarks;
    event.n_debug_annotations = doubt != NULL;
    return write_event(writer, boottime_ns, &event);
}
