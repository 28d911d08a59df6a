import { realpath } from 'node:fs/promises'
import path from 'node:path'
import type { SystemPane, UpdateAction } from '../../contract/app-bridge.ts'
import { type AgentLink, LinkError } from '../../contract/client.ts'
import type { CommandResult } from '../../contract/commands.ts'
import { type AgentViewStore, answer, command } from '../agent/agent-view.ts'
import type { ShellPreferences } from '../preferences.ts'
import type { MenuAction } from './menu-entries.ts'
import type { WindowPlace } from '../window/show-target.ts'
import { menuWords, questionWords } from '../words.ts'

export interface Question {
  readonly message: string
  readonly detail?: string
  /** The one that does it; the other is Cancel where it is not named. */
  readonly yes: string
  readonly no?: string
}

export interface MenuActionOptions {
  readonly link: AgentLink
  readonly view: AgentViewStore
  /** Below it are the logs that may be opened. */
  readonly stateDir: string
  readonly measurePower: () => Promise<CommandResult | undefined>
  readonly showWindow: (at: WindowPlace | undefined) => void
  readonly tearOff: () => Promise<void>
  readonly copy: (text: string) => Promise<void>
  /** Answers what went wrong, or nothing. */
  readonly openFile: (file: string) => Promise<string>
  readonly confirm: (question: Question) => Promise<boolean>
  readonly prefer: (preferences: Partial<ShellPreferences>) => Promise<void>
  readonly resetPreferences: () => Promise<void>
  readonly setLoginItem: (isOn: boolean) => void
  readonly openPane: (pane: SystemPane) => Promise<void>
  readonly takeOver: () => Promise<CommandResult | undefined>
  readonly quit: () => Promise<void>
  readonly update: (action: UpdateAction) => void
  readonly setCommandLink: (isWanted: boolean) => Promise<void>
  readonly moveToApplications: () => Promise<CommandResult | undefined>
}

/** Does what a person chose in the menu. Never rejects: what does not work is said by the menu. */
export async function carryOut(options: MenuActionOptions, action: MenuAction): Promise<void> {
  const { view } = options
  switch (action.kind) {
    case 'command':
      await ask(options, action.command)
      return
    case 'measurePower':
      await answer(view, options.measurePower)
      return
    case 'open':
      options.showWindow(action.at)
      return
    case 'tearOff':
      await options.tearOff()
      return
    case 'copy':
      await answer(
        view,
        nothing(() => options.copy(action.text)),
      )
      return
    case 'showLog':
      await answer(view, () => showLog(options, action.file))
      return
    case 'prefer':
      await answer(
        view,
        nothing(() => options.prefer(action.preferences)),
      )
      return
    case 'resetPreferences':
      await answer(
        view,
        nothing(() => options.resetPreferences()),
      )
      return
    case 'loginItem':
      await answer(
        view,
        nothing(() => options.setLoginItem(action.isOn)),
      )
      return
    case 'openPane':
      await answer(
        view,
        nothing(() => options.openPane(action.pane)),
      )
      return
    case 'takeOver':
      await takeOver(options)
      return
    case 'update':
      // It is there that a person sees how far it is.
      if (action.action === 'look') options.showWindow({ view: 'settings', field: 'updates' })
      await answer(
        view,
        nothing(() => options.update(action.action)),
      )
      return
    case 'commandLink':
      await answer(
        view,
        nothing(() => options.setCommandLink(action.isWanted)),
      )
      return
    case 'moveToApplications':
      await answer(view, options.moveToApplications)
      return
    case 'quit':
      await options.quit()
  }
}

/** Where another command would do, the person is asked at once: the menu is closed by now. */
async function ask(
  { link, view, confirm }: MenuActionOptions,
  input: Extract<MenuAction, { kind: 'command' }>['command'],
): Promise<void> {
  let next = input
  for (;;) {
    const result = await command(link, view, next)
    const instead = result?.outcome === 'refused' ? result.instead : undefined
    if (!result || !instead) return
    if (!(await confirm({ message: result.message, yes: instead.label }))) {
      // What was declined is asked again, and never done by a click in the menu that asks no more.
      if (view.getState().answer === result) view.setState({ answer: undefined })
      return
    }
    next = instead.command
  }
}

const nothing = (work: () => Promise<void> | void) => async (): Promise<undefined> => {
  await work()
}

async function takeOver({ view, confirm, takeOver: run }: MenuActionOptions): Promise<void> {
  if (await confirm(questionWords.takeOver)) await answer(view, run)
}

async function showLog({ stateDir, openFile }: MenuActionOptions, file: string): Promise<CommandResult | undefined> {
  const problem = await openFile(await ownLog(stateDir, file))
  return problem === '' ? undefined : { outcome: 'failed', message: menuWords.logNotOpened(problem) }
}

/**
 * Where the log really is. An agent that is another program names the file, so nothing but a log of the state folder is shown to a
 * person. Throws a LinkError for all else.
 */
export async function ownLog(stateDir: string, file: string): Promise<string> {
  const [folder, log] = await Promise.all([realpath(stateDir), realpath(file).catch(() => undefined)])
  if (log === undefined) throw new LinkError('refused', menuWords.logGone(file))
  if (!log.startsWith(`${folder}${path.sep}`) || path.extname(log) !== '.log') {
    throw new LinkError('refused', menuWords.notOurLog(file))
  }
  return log
}
