// SPDX-License-Identifier: Apache-2.0
// Of a profile that is being recorded: take a dump, or end the recording, beside what is read.
import { askRecordings, sessionOfProfile } from "../machine/recordings";
import { usePolled } from "../machine/polled";
import { SessionButtons } from "../machine/record_live";
import type { Place } from "../model";

const POLL_MS = 2000;

export function RecordingButtons({ place }: { place: Place }) {
  const { value: machine } = usePolled(askRecordings, POLL_MS);
  const session = machine && place.process ? sessionOfProfile(machine, place.profile.path, place.process.pid) : undefined;
  return session ? <SessionButtons session={session} onStop={() => {}} /> : null;
}
