import path from 'node:path'
import { formatBytes, formatShare } from '../../contract/format.ts'
import type { AgentView } from '../agent-view.ts'
import { line, lines, text, type MenuEntry } from './entries.ts'

/** How far a newer app is, with what comes next. */
export function updateEntries({ update, lastUpdate }: AgentView): MenuEntry[] {
  const told = lastUpdate === undefined ? [] : lines(outcomeOf(lastUpdate))
  const look = line('Check for updates…', { kind: 'update', action: 'look' })
  switch (update.step) {
    case 'unavailable':
      return update.why === 'managed' ? [...told, text('Who manages this Mac brings updates of Metalbar')] : told
    case 'unknown':
    case 'newest':
      return [...told, look]
    case 'looking':
      return [text('Looking for updates…')]
    case 'available': {
      const size = update.bytes === undefined ? '' : ` (${formatBytes(update.bytes)})`
      return [line(`Download Metalbar ${update.version}${size}`, { kind: 'update', action: 'download' })]
    }
    case 'downloading': {
      const { version, doneBytes, totalBytes } = update
      const part = totalBytes === undefined ? '' : ` · ${formatShare(doneBytes / Math.max(totalBytes, 1))}`
      return [
        text(`Downloading Metalbar ${version}${part}`),
        line('Cancel the download', { kind: 'update', action: 'cancel' }),
      ]
    }
    case 'downloaded':
      return [
        line(
          `Restart to update to ${update.version}`,
          { kind: 'update', action: 'install' },
          { toolTip: 'What serves goes on meanwhile, and the new version takes it over.' },
        ),
      ]
    case 'installing':
      return [text(`Getting Metalbar ${update.version} ready…`)]
    case 'failed':
      return [...lines(update.message), look]
  }
}

/** What became of the last one. */
export const outcomeOf = ({ wanted, runs }: NonNullable<AgentView['lastUpdate']>): string =>
  wanted === runs ? `Metalbar is now ${runs}.` : `The update to ${wanted} did not happen; Metalbar ${runs} still runs.`

/** From there it can be updated and opened at login. */
export const moveEntries = ({ misplaced }: AgentView): MenuEntry[] =>
  misplaced === undefined
    ? []
    : [
        line(
          'Move to Applications…',
          { kind: 'moveToApplications' },
          { toolTip: 'It closes and opens again from there; what serves goes on.' },
        ),
      ]

/** The link by which a shell finds metal-agent. */
export function commandLinkEntries({ commandLink }: AgentView): MenuEntry[] {
  switch (commandLink.state) {
    case 'unavailable':
      return []
    case 'absent':
      return [line('Install the command metal-agent', { kind: 'commandLink', isWanted: true })]
    case 'linked':
      return [
        line(
          `Command metal-agent in ${path.dirname(commandLink.file)}`,
          { kind: 'commandLink', isWanted: false },
          { isChecked: true, toolTip: `Removes ${commandLink.file}, which leads to this app.` },
        ),
      ]
    case 'outdated':
      return [
        line(
          'Repair the command metal-agent',
          { kind: 'commandLink', isWanted: true },
          { toolTip: `${commandLink.file} leads to where the app was before.` },
        ),
      ]
    case 'foreign':
      return [text(`Another metal-agent is in ${path.dirname(commandLink.file)}`)]
  }
}
