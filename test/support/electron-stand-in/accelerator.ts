const modifiers: Readonly<Record<string, string>> = {
  command: 'command',
  cmd: 'command',
  control: 'control',
  ctrl: 'control',
  // On macOS.
  commandorcontrol: 'command',
  cmdorctrl: 'command',
  alt: 'alt',
  option: 'alt',
  shift: 'shift',
  super: 'command',
  meta: 'command',
}

const key =
  /^(?:[\x21-\x2a\x2c-\x7e]|F(?:[1-9]|1\d|2[0-4])|Plus|Space|Tab|Backspace|Delete|Insert|Return|Enter|Up|Down|Left|Right|Home|End|PageUp|PageDown|Escape|Esc)$/i

/** The keys that are pressed together, in one spelling; throws for what Electron would not know, and pass over. */
export function acceleratorKeys(accelerator: string): ReadonlySet<string> {
  const parts = accelerator.split('+')
  const last = parts.pop() ?? ''
  const held = parts.map((part) => modifiers[part.toLowerCase()])
  if (!key.test(last) || held.includes(undefined)) throw new TypeError(`${accelerator} is no accelerator`)
  return new Set([...held.filter((name) => name !== undefined), last.toLowerCase()])
}

export function sameKeys(one: string, other: string): boolean {
  const [first, second] = [acceleratorKeys(one), acceleratorKeys(other)]
  return first.size === second.size && [...first].every((name) => second.has(name))
}
