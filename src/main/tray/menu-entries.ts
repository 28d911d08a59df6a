import type { MenuItemConstructorOptions } from 'electron'
import type { VerbWork } from '../../contract/app-bridge.ts'
import { cleanText } from '../../contract/clean-text.ts'
import type { CommandInput } from '../../contract/commands.ts'
import type { WindowPlace } from '../window/show-target.ts'

type OfApp = 'prefer' | 'setLoginItem' | 'openPane' | 'update' | 'setCommandLink' | 'moveToApplications'
type OfAppSaid = { readonly [V in OfApp]: (...content: Parameters<VerbWork[V]>) => Promise<unknown> }

/** What can be chosen in the menu and in notifications: verbs of the app, and what the window does otherwise or not at all. */
export interface MenuActions extends OfAppSaid {
  command(command: CommandInput): Promise<unknown>
  measurePower(): Promise<unknown>
  /** The window, turned to one of its parts. */
  open(at?: WindowPlace): unknown
  /** The same as a window like any other. */
  tearOff(): Promise<void>
  copy(text: string): Promise<unknown>
  showLog(file: string): Promise<unknown>
  resetPreferences(): Promise<unknown>
  /** The agent that another program runs is to run in this app. */
  takeOver(): Promise<unknown>
  quit(): Promise<void>
}

/** One of them, with what it is called with. */
export type MenuAction = {
  [Name in keyof MenuActions]: readonly [name: Name, ...Parameters<MenuActions[Name]>]
}[keyof MenuActions]

/** A line of the menu as data; one without an action or entries below it can only be read. */
export type MenuEntry =
  | { readonly kind: 'separator' }
  | {
      readonly kind: 'line'
      readonly label: string
      readonly action?: MenuAction
      /** Has a check mark, or the room for one. */
      readonly isChecked?: boolean
      readonly accelerator?: string
      /** Says more where the pointer rests. */
      readonly toolTip?: string
      readonly entries?: readonly MenuEntry[]
    }

const separator: MenuEntry = { kind: 'separator' }

/** Longer sentences would make the menu as wide as the screen. */
const maxSentence = 90

export const text = (sentence: string): MenuEntry => {
  const clean = cleanText(sentence)
  return {
    kind: 'line',
    label: clean.length <= maxSentence ? clean : `${clean.slice(0, maxSentence - 1).trimEnd()}…`,
  }
}

/** All of a sentence, in as many lines as it takes but for a limit. */
export function lines(sentence: string, most = 6): MenuEntry[] {
  const broken: string[] = []
  for (const word of cleanText(sentence).split(' ')) {
    const last = broken.at(-1)
    if (last === undefined || last.length + 1 + word.length > maxSentence) broken.push(word)
    else broken[broken.length - 1] = `${last} ${word}`
  }
  const shown = broken.slice(0, most)
  if (broken.length > most) shown[most - 1] = `${shown[most - 1] ?? ''} …`
  return shown.map(text)
}

type LineOptions = Partial<Pick<Extract<MenuEntry, { kind: 'line' }>, 'accelerator' | 'toolTip' | 'isChecked'>>

export const line = (label: string, action: MenuAction, options: LineOptions = {}): MenuEntry => ({
  kind: 'line',
  label: nameWithin(label, maxSentence),
  action,
  ...options,
})

export const submenu = (label: string, entries: readonly MenuEntry[]): MenuEntry => ({
  kind: 'line',
  label: cleanText(label),
  entries,
})

/** Enough to tell names apart that begin and end alike. */
const maxName = 48

/** A name of any length as one that fits, cut in the middle: names that a person has to tell apart often differ at the end. */
export function nameWithin(name: string, most = maxName): string {
  const clean = cleanText(name)
  if (clean.length <= most) return clean
  const head = Math.ceil((most - 1) / 2)
  return `${clean.slice(0, head)}…${clean.slice(clean.length - (most - 1 - head))}`
}

/** The groups that have something to show, with a line between each two. */
export const separated = (groups: readonly (readonly MenuEntry[])[]): MenuEntry[] =>
  groups
    .filter((group) => group.length > 0)
    .flatMap((group, index) => (index === 0 ? [...group] : [separator, ...group]))

/** The same as Electron takes it. */
export const templateOf = (entries: readonly MenuEntry[], onAction: (action: MenuAction) => void) =>
  entries.map((entry) => itemOf(entry, onAction))

function itemOf(entry: MenuEntry, onAction: (action: MenuAction) => void): MenuItemConstructorOptions {
  if (entry.kind === 'separator') return { type: 'separator' }
  const { label, action, accelerator, toolTip, isChecked, entries } = entry
  return {
    // A single one would mark the letter after it as a key, and not be shown.
    label: label.replaceAll('&', '&&'),
    enabled: action !== undefined || entries !== undefined,
    ...(accelerator !== undefined && { accelerator }),
    ...(toolTip !== undefined && { toolTip }),
    ...(isChecked !== undefined && { type: 'checkbox', checked: isChecked }),
    ...(entries && { submenu: templateOf(entries, onAction) }),
    ...(action && { click: () => onAction(action) }),
  }
}
