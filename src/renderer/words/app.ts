import type { CommandLinkState, HubTokenState, LoginItemState, UpdateState } from '../../contract/app-state.ts'
import { formatByteRate, formatBytes, formatTime } from '../../contract/format.ts'
import { percentOf } from '../../contract/service.ts'
import type { HubLoginView } from '../../contract/models.ts'
import type { PowerRuleState } from '../../contract/power.ts'
import type { Trace } from '../../contract/uninstall.ts'
import { sharedWords, type Words } from '../../contract/words.ts'

/** What concerns the app itself, and the token that it keeps; a page in a browser has nothing of it. */
export const appWords = {
  loginItems: {
    'not-registered': 'Metalbar does not open when you log in.',
    enabled: 'Metalbar opens when you log in.',
    'requires-approval': 'macOS needs your permission: allow Metalbar in System Settings, under Login Items.',
    unavailable: sharedWords.onlyInstalled,
  } satisfies Record<LoginItemState, string>,
  openLoginItems: 'Open Login Items…',
  onQuit: 'When you quit while models run',
  notificationsHelp: 'About what needs you: a crash loop, a refusal, an evicted model. The window shows it too.',
  openNotifications: 'Open Notifications…',
  showTitle: 'Figures beside the icon',
  showTitleHelp: 'Models, memory and power, such as 2 · 38 GB · 41 W.',
  noPreferences: 'The preferences cannot be read. The menu says why and can reset them.',
  token: 'Token',
  tokenStates: {
    none: 'The app keeps no token.',
    kept: 'The app keeps a token, encrypted with a key of the keychain. It is never shown again.',
    unreadable: 'The keychain does not give the token back. Enter it again, or remove it.',
    unavailable: 'This machine has no keychain. Write the token into a file that only you can read, and name it below.',
  } satisfies Record<HubTokenState, string>,
  tokenElsewhere: 'The app does not run this agent, so its token is not used.',
  tokenHelp: 'Make one at huggingface.co under Settings, Access Tokens. Read access is enough.',
  keepToken: 'Keep it',
  keepTokenLabel: 'Keep it: the Hugging Face token',
  removeToken: 'Remove the token',
  removeTokenSure: 'It is deleted here for good; on huggingface.co it stays valid.',
  removeTokenNow: 'Yes, remove it',
  keepTokenHere: 'Keep the token',
  whyMove: 'Only in Applications can it be updated and opened at login.',
} as const satisfies Words

const sources: Readonly<Record<HubLoginView['tokenSource'], (where: string) => string>> = {
  none: () => 'None: only open models can be downloaded.',
  environment: (where) => `From the variable ${where} that the agent was started with.`,
  file: (where) => `From the file ${where}.`,
  keychain: () => 'Kept by the app, encrypted with a key of the keychain.',
}

/** The token that the Hub is asked with; it is never shown. */
export const hubLoginWords = {
  title: 'Hugging Face token',
  source: ({ tokenSource, where = '' }: HubLoginView): string => sources[tokenSource](where),
  inTerminal:
    'A page in a browser takes no token. Run this in a terminal on this machine; it asks for one and keeps it in a file:',
  command: 'hf auth login',
  copyCommand: 'Copy command for the token',
} as const satisfies Words

/** The rule by which sudo lets powermetrics run. */
export const powerRuleWords = {
  title: 'Sudo rule for powermetrics',
  states: {
    installed: 'Installed. sudo may run exactly these commands without a password:',
    missing: 'Not installed: without it, powermetrics asks for a password and cannot measure power.',
    different: 'Different: sudo does not allow exactly what is below.',
    unknown: 'Not known: sudo did not answer.',
    notHere: 'Only macOS has powermetrics.',
  } satisfies Record<PowerRuleState, string>,
  show: 'What sudo would allow',
  shown: 'What sudo allows',
  file: (path: string) => `Contents of ${path} (root-owned, checked by visudo):`,
  label: 'Rule',
  copyRule: 'Copy rule',
  inTerminal: {
    install: 'Run this in a terminal on this Mac. It shows the rule, asks for your password and installs it:',
    remove: 'Run this in a terminal on this Mac. It asks for your password and removes the rule:',
  },
  commands: { install: 'metal-agent power install', remove: 'metal-agent power remove' },
  copy: { install: 'Copy command that installs the rule', remove: 'Copy command that removes the rule' },
  inApp: 'You see first what Terminal will run. It asks for your password.',
  change: { install: 'Install the rule…', remove: 'Remove the rule…' },
} as const satisfies Words

/** Newer versions of the app, and what they need. */
export const updateWords = {
  title: 'Updates',
  runs: (version: string) => `Metalbar ${version} is running.`,
  state: (update: UpdateState): string => {
    switch (update.step) {
      case 'unavailable':
        return sharedWords.noUpdates[update.why]
      case 'unknown':
        return 'The app has not checked for updates since it was opened.'
      case 'looking':
        return sharedWords.lookingForUpdates
      case 'newest':
        return update.offered === undefined
          ? `This is the newest version, as of ${formatTime(new Date(update.at))}.`
          : `It is newer than what the server has, which is ${update.offered}; an older version is never installed.`
      case 'available':
        return update.bytes === undefined
          ? `Metalbar ${update.version} is available.`
          : `Metalbar ${update.version} is available: ${formatBytes(update.bytes)}.`
      case 'downloading':
        return update.totalBytes === undefined || update.bytesPerSecond === undefined
          ? `Downloading Metalbar ${update.version}…`
          : `Downloading Metalbar ${update.version}: ${formatBytes(update.doneBytes)} of ${formatBytes(update.totalBytes)} (${percentOf(update)} %), ${formatByteRate(update.bytesPerSecond)}.`
      case 'downloaded':
        return `Metalbar ${update.version} is downloaded. Models keep serving while the app restarts; the new version takes them over.`
      case 'installing':
        return `macOS checks who signed Metalbar ${update.version}; then the app restarts.`
      case 'failed':
        return update.message
    }
  },
  look: 'Check for updates',
  download: 'Download it',
  install: 'Restart to update',
  dismiss: 'Dismiss the message about the update',
  progress: 'Download of the update',
  regularly: 'Check for updates once a day',
  regularlyHelp: 'Asks the release server for the newest version. It learns nothing about this machine.',
  command: 'Command metal-agent in a terminal',
  commandHelp: (link: CommandLinkState): string => {
    switch (link.state) {
      case 'unavailable':
        return 'Move the app to Applications first.'
      case 'absent':
        return 'Links the command into a folder of your PATH.'
      case 'linked':
        return `${link.file} links to the command. Switch it off to remove the link.`
      case 'outdated':
        return `${link.file} links to ${link.target}, where the app used to be. Switch it on to repair the link.`
      case 'foreign':
        return `${link.file} does not belong to this app and is left alone.`
    }
  },
} as const satisfies Words

/** So many places of a kind are named. */
const mostPlaces = 4

const sizeOf = ({ places }: Trace): number => places.reduce((sum, { bytes = 0 }) => sum + bytes, 0)

/** Everything that Metalbar ever wrote, and its removal. */
export const uninstallWords = {
  title: 'Uninstall',
  open: 'Uninstall Metalbar…',
  opens:
    'Lists everything that Metalbar has written on this Mac and in the cluster. Nothing is removed until you confirm it.',
  looking: 'Looking for everything that Metalbar has written…',
  serving: (services: readonly string[]) =>
    `${services.length === 1 ? 'One model serves' : `${services.length} models serve`}: ${services.join(', ')}. They finish their requests and stop first.`,
  nothing: 'Nothing else to remove.',
  trace: (trace: Trace): string => {
    const bytes = sizeOf(trace)
    return bytes === 0 ? trace.what : `${trace.what} · ${formatBytes(bytes)}`
  },
  places: ({ places, stays, problem }: Trace): string => {
    const named = places.slice(0, mostPlaces).map(({ path }) => path)
    const more = places.length - named.length
    const where = [...named, ...(more > 0 ? [`and ${more} more`] : [])].join(', ')
    return [
      ...(where === '' ? [] : [`${where}.`]),
      ...stays,
      ...(problem === undefined ? [] : [`Not known: ${problem}`]),
    ].join(' ')
  },
  remove: 'Remove selected…',
  removing: 'Models finish their requests; then the app ends and says what it removed.',
} as const satisfies Words
