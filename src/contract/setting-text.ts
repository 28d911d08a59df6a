import { formatByteCount, formatDuration, parseByteCount, parseDuration } from './quantities.ts'
import { editableRow, type SettingName } from './settings.ts'
import type { SettingKind } from './setting-row.ts'

/** How people spell a setting: mostly as its flag. */
export function spellingOf(name: SettingName): string {
  const { spelled, flag } = editableRow(name)
  return spelled ?? flag
}

/** As people write it. */
export function formatSetting(kind: SettingKind, value: string | number | boolean): string {
  if (typeof value === 'string') return value
  if (typeof value === 'boolean') return value ? 'on' : 'off'
  if (kind === 'duration') return formatDuration(value)
  return kind === 'bytes' ? formatByteCount(value) : String(value)
}

/** What a person wrote, as a value; whether it makes sense is for the setting's schema to say. */
export function readSetting(
  kind: SettingKind,
  text: string,
): { readonly ok: true; readonly value: string | number | boolean } | { readonly ok: false; readonly wants: string } {
  const reader = readers[kind]
  if (!reader) return { ok: true, value: text }
  const value = reader.read(text)
  return value === undefined ? { ok: false, wants: reader.wants } : { ok: true, value }
}

interface Reader {
  readonly wants: string
  readonly read: (text: string) => number | boolean | undefined
}

/** A unit that is not listed means text. */
const readers: Readonly<Partial<Record<SettingKind, Reader>>> = {
  duration: { wants: 'a duration such as 30s or 2m', read: parseDuration },
  bytes: { wants: 'a number of bytes such as 20Mi', read: parseByteCount },
  count: { wants: 'a whole number', read: (text) => (/^\d+$/.test(text) ? Number(text) : undefined) },
  fraction: {
    wants: 'a fraction such as 0.75',
    read: (text) => (/^(?:\d+(?:\.\d+)?|\.\d+)$/.test(text) ? Number(text) : undefined),
  },
  number: {
    wants: 'a number such as 0.32',
    read: (text) => (/^(?:\d+(?:\.\d+)?|\.\d+)$/.test(text) ? Number(text) : undefined),
  },
  switch: { wants: 'on or off', read: (text) => (text === 'on' ? true : text === 'off' ? false : undefined) },
}
