// SPDX-License-Identifier: Apache-2.0
// The form of a recording: what to record, and the options, each with its meaning.
import type { ComponentChildren } from "preact";
import { TARGETS, type Form, type Target } from "./command_line";
import { GROUP_TITLES, isApplicable, RECORD_OPTIONS, type Group, type RecordOption } from "./record_options";

type Change = (change: Partial<Form>) => void;

const TARGET_TITLES: Record<Target, string> = { command: "A command", pid: "A process", name: "A name", everything: "Everything" };

const TARGET_MEANINGS: Record<Target, string> = {
  command: "Runs it and profiles its heap from the first allocation on. No shell reads the line: quotes group words, other characters mean themselves.",
  pid: "Profiles running processes until they end, or you stop. Several pids are separated by commas.",
  name: "Profiles the processes of these programs, those that run and those that start later. Names are separated by commas. With --no-startup, * stands for any characters.",
  everything: "Profiles all processes that run and that you may profile. Each of them pays for its samples: a larger interval costs less.",
};

const TARGET_FIELDS: Partial<Record<Target, { of: "command" | "pid" | "name"; label: string; placeholder: string }>> = {
  command: { of: "command", label: "Command", placeholder: "jq . big.json" },
  pid: { of: "pid", label: "Pids", placeholder: "4711" },
  name: { of: "name", label: "Names", placeholder: "nginx,php-fpm" },
};

function TargetChoice({ form, change, children }: { form: Form; change: Change; children: ComponentChildren }) {
  const field = TARGET_FIELDS[form.target];
  return (
    <fieldset>
      <legend>What to record</legend>
      <div class="record-targets" role="radiogroup" aria-label="What to record">
        {TARGETS.map((target) => (
          <label key={target}>
            <input type="radio" name="target" checked={form.target === target} onChange={() => change({ target })} /> {TARGET_TITLES[target]}
          </label>
        ))}
      </div>
      {field && (
        <input class="record-target name" aria-label={field.label} placeholder={field.placeholder} value={form[field.of]} spellcheck={false} autocomplete="off"
          onInput={(event) => change({ [field.of]: event.currentTarget.value })} />
      )}
      <p class="faint">{TARGET_MEANINGS[form.target]}</p>
      {children}
    </fieldset>
  );
}

function optionName(option: RecordOption): string {
  if (option.flags) return option.flags.map((flag) => `--${flag}`).join(", ");
  const name = `${option.letter ? `-${option.letter}, ` : ""}--${option.name}`;
  return option.value ? `${name} ${option.value}` : name;
}

function Field({ option, value, set }: { option: RecordOption; value: string; set: (value: string) => void }) {
  const id = `option-${option.name}`;
  const choices = option.flags ?? option.choices;
  if (choices)
    return (
      <select id={id} value={value} onChange={(event) => set(event.currentTarget.value)} aria-describedby={`${id}-meaning`}>
        <option value="">{option.otherwise}</option>
        {choices.map((choice) => <option key={choice} value={choice}>{option.flags ? `--${choice}` : choice}</option>)}
      </select>
    );
  if (option.value === undefined)
    return <input id={id} type="checkbox" checked={value !== ""} onChange={(event) => set(event.currentTarget.checked ? option.name : "")} aria-describedby={`${id}-meaning`} />;
  return (
    <input id={id} value={value} placeholder={option.otherwise ?? "none"} spellcheck={false} autocomplete="off" onInput={(event) => set(event.currentTarget.value)}
      aria-describedby={`${id}-meaning`} />
  );
}

function OptionRow({ option, form, change }: { option: RecordOption; form: Form; change: Change }) {
  const set = (value: string) => change({ values: { ...form.values, [option.name]: value } });
  return (
    <div class="record-option">
      <label for={`option-${option.name}`}>{option.title}</label>
      <Field option={option} value={form.values[option.name] ?? ""} set={set} />
      <p id={`option-${option.name}-meaning`} class="faint"><code>{optionName(option)}</code> {option.meaning}</p>
    </div>
  );
}

/** Options that are seldom needed are folded, unless one of them is set. */
function Folded({ form, options, change }: { form: Form; options: RecordOption[]; change: Change }) {
  const groups = [...new Set(options.map((option) => option.group))];
  const set = options.filter((option) => (form.values[option.name] ?? "") !== "").length;
  return (
    <details class="record-more" open={set > 0 || undefined}>
      <summary>More options{set > 0 && ` (${set} set)`}</summary>
      {groups.map((group: Group) => (
        <fieldset key={group}>
          <legend>{GROUP_TITLES[group]}</legend>
          {options.filter((option) => option.group === group).map((option) => <OptionRow key={option.name} option={option} form={form} change={change} />)}
        </fieldset>
      ))}
    </details>
  );
}

/** `children` stand below the target: what is known about it. */
export function RecordForm({ form, change, children }: { form: Form; change: Change; children: ComponentChildren }) {
  const options = RECORD_OPTIONS.filter((option) => isApplicable(option, form.target === "command"));
  return (
    <div class="record-form">
      <TargetChoice form={form} change={change}>{children}</TargetChoice>
      <fieldset>
        <legend>How</legend>
        {options.filter((option) => option.isCommon).map((option) => <OptionRow key={option.name} option={option} form={form} change={change} />)}
      </fieldset>
      <Folded form={form} options={options.filter((option) => !option.isCommon)} change={change} />
    </div>
  );
}
