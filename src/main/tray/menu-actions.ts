import { realpath } from 'node:fs/promises'
import path from 'node:path'
import type { AppVerb, VerbWork } from '../../contract/app-bridge.ts'
import { LinkError } from '../../contract/client.ts'
import type { CommandInput, CommandResult } from '../../contract/commands.ts'
import { type AgentViewStore, answer, command } from '../agent/agent-view.ts'
import type { ShownAgent } from '../agent/shown-agent.ts'
import type { Question } from '../lifecycle/questions.ts'
import type { MenuAction, MenuActions } from './menu-entries.ts'
import type { Popover } from '../window/popover.ts'
import { menuWords, questionWords } from '../words.ts'

export interface MenuActionOptions {
  readonly agent: ShownAgent
  readonly view: AgentViewStore
  /** Below it are the logs that may be opened. */
  readonly stateDir: string
  /** What the window asks of the app too. */
  readonly ofApp: VerbWork<AppVerb>
  readonly popover: Popover
  readonly measurePower: () => Promise<CommandResult | undefined>
  readonly copy: (text: string) => Promise<void>
  /** Answers what went wrong, or nothing. */
  readonly openFile: (file: string) => Promise<string>
  readonly confirm: (question: Question) => Promise<boolean>
  readonly quit: () => Promise<void>
}

/** What the menu does. None of it rejects but the last two: what does not work is said by the menu. */
export function menuActions(options: MenuActionOptions): MenuActions {
  const { agent, view, ofApp, popover, confirm } = options
  /** Says what went wrong, where something did; what answers nothing was done. */
  const said =
    <Given extends unknown[]>(work: (...given: Given) => unknown) =>
    (...given: Given) =>
      answer(view, async () => (await work(...given)) as CommandResult | undefined)
  return {
    command: (command) => ask(options, command),
    measurePower: said(options.measurePower),
    open: (at) => popover.show(at),
    copy: said(options.copy),
    showLog: said((file: string) => showLog(options, file)),
    prefer: said(ofApp.prefer),
    resetPreferences: said(() => agent.reset()),
    setLoginItem: said(ofApp.setLoginItem),
    openPane: said(ofApp.openPane),
    takeOver: async () => {
      if (await confirm(questionWords.takeOver)) await answer(view, () => agent.takeOver())
    },
    update: (action) => {
      // It is there that a person sees how far it is.
      if (action === 'look') popover.show({ view: 'settings', field: 'updates' })
      return said(ofApp.update)(action)
    },
    setCommandLink: said(ofApp.setCommandLink),
    moveToApplications: said(ofApp.moveToApplications),
    tearOff: () => popover.tearOff(),
    quit: options.quit,
  }
}

/** Does what a person chose. */
export async function carryOut(actions: MenuActions, [name, ...given]: MenuAction): Promise<void> {
  await (actions[name] as (...given: readonly unknown[]) => unknown)(...given)
}

/** Where another command would do, the person is asked at once: the menu is closed by now. */
async function ask({ agent, view, confirm }: MenuActionOptions, input: CommandInput): Promise<void> {
  let next = input
  for (;;) {
    const result = await command(agent.link, view, next)
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
