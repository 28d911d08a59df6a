import type {
  AppPreferences,
  CommandLinkState,
  LastUpdate,
  Misplaced,
  NoUpdates,
  UpdateState,
} from '../../../contract/app-bridge.ts'
import { formatByteRate, formatBytes, formatShare, formatTime } from '../../../contract/format.ts'

const none: Readonly<Record<NoUpdates, string>> = {
  source: 'What runs from its sources is not updated by the app.',
  unpublished:
    'This build has no address to ask for updates: put a newer Metalbar in its place, and what serves goes on.',
  misplaced: 'Move the app into Applications first: where it runs now it cannot be replaced.',
  managed: 'Who manages this Mac brings its updates; the app looks for none.',
}

/** Newer versions of the app, and what they need. */
export const updateWords = {
  title: 'Updates',
  runs: (version: string) => `Metalbar ${version} runs.`,
  state: (update: UpdateState): string => {
    switch (update.step) {
      case 'unavailable':
        return none[update.why]
      case 'unknown':
        return 'Nobody has looked for a newer version since the app was opened.'
      case 'looking':
        return 'Looking for a newer version…'
      case 'newest':
        return update.offered === undefined
          ? `It is the newest version, as of ${formatTime(new Date(update.at))}.`
          : `It is newer than what this channel has, which is ${update.offered}; an older version is never installed.`
      case 'available':
        return update.bytes === undefined
          ? `Metalbar ${update.version} is available.`
          : `Metalbar ${update.version} is available: ${formatBytes(update.bytes)}.`
      case 'downloading':
        return update.totalBytes === undefined || update.bytesPerSecond === undefined
          ? `Downloading Metalbar ${update.version}…`
          : `Downloading Metalbar ${update.version}: ${formatBytes(update.doneBytes)} of ${formatBytes(update.totalBytes)} (${formatShare(update.doneBytes / Math.max(update.totalBytes, 1))}), ${formatByteRate(update.bytesPerSecond)}.`
      case 'downloaded':
        return `Metalbar ${update.version} is downloaded. What serves goes on while the app restarts, and the new version takes it over.`
      case 'installing':
        return `macOS checks who signed Metalbar ${update.version}; then the app restarts.`
      case 'failed':
        return update.message
    }
  },
  last: ({ wanted, runs }: LastUpdate): string =>
    wanted === runs
      ? `Metalbar is now ${runs}.`
      : `The update to ${wanted} did not happen: Metalbar ${runs} runs on as it was.`,
  look: 'Check for updates',
  download: 'Download it',
  cancel: 'Cancel the download',
  install: 'Restart to update',
  dismiss: 'Dismiss what is said of the update',
  progress: 'Download of the update',
  regularly: 'Look for updates once a day',
  regularlyHelp: 'It asks the release server for the newest version, and says nothing of this machine.',
  channel: 'Channel',
  channels: { latest: 'Releases', beta: 'Betas too' } satisfies Record<AppPreferences['updateChannel'], string>,
  channelHelp: 'Betas come earlier and are tried less.',
  command: 'Command metal-agent in a terminal',
  commandHelp: (link: CommandLinkState): string => {
    switch (link.state) {
      case 'unavailable':
        return 'Only the app in Applications has a command that can be linked.'
      case 'absent':
        return 'A link in a folder of your PATH that leads to the command inside of the app.'
      case 'linked':
        return `${link.file} leads to the command inside of the app. Switched off, the link is removed.`
      case 'outdated':
        return `${link.file} leads to ${link.target}, where the app was before. Switched on, it is repaired.`
      case 'foreign':
        return `${link.file} is none of this app's, and is left alone.`
    }
  },
} as const

export const misplacedWords = {
  where: {
    diskImage: 'Metalbar runs from its disk image.',
    translocated: 'macOS runs Metalbar from a place of safety, since it was opened where it was downloaded.',
    downloads: 'Metalbar runs from Downloads.',
  } satisfies Record<Misplaced, string>,
  why: 'Only in Applications can it be updated and opened at login.',
  move: 'Move to Applications',
} as const
