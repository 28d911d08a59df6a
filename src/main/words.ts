import type { ChosenFile, PowerRuleChange } from '../contract/app-bridge.ts'
import type { LoginItemState } from '../contract/app-state.ts'
import { formatBytes, formatSpan } from '../contract/format.ts'
import type { StepName } from '../contract/service.ts'
import { sharedWords, stepWords, type Words } from '../contract/words.ts'

/** Beside the icon, where the pointer rests on it, and at the top of its menu. */
export const iconWords = {
  starting: 'Metalbar is starting.',
  stopping: 'Stopping: finishing requests in flight',
  paused: 'This machine is paused',
  serving: (models: number) =>
    models === 0 ? 'Serving no models' : models === 1 ? 'Serving 1 model' : `Serving ${models} models`,
  loading: (models: number) => `loading ${models}`,
  inTrouble: (models: number) => `${models} in trouble`,
  memory: (modelsBytes: number, budgetBytes: number | undefined) =>
    budgetBytes === undefined ? formatBytes(modelsBytes) : `${formatBytes(modelsBytes)} of ${formatBytes(budgetBytes)}`,
  pressure: { warning: 'memory is short', critical: 'memory is critically short' },
  noPower: 'power not reported',
  /** Whole ones: there is little room beside the icon. */
  gigabytes: (bytes: number) => `${Math.round(bytes / 1e9)} GB`,
  noCluster: 'No cluster',
  cluster: (context: string, namespace: string | undefined) => `${context} (${namespace ?? 'all namespaces'})`,
} as const satisfies Words

/** The menu of the icon. */
export const menuWords = {
  openLocalNetwork: 'Open Local Network settings…',
  moreNotices: (count: number) => (count === 1 ? '1 more notice in the window' : `${count} more notices in the window`),
  moreModels: (count: number) => `${count} more`,
  copyUrl: 'Copy URL',
  showLog: 'Show log',
  showInWindow: 'Show in window',
  why: 'Why?',
  step: (mark: string, name: StepName, message: string | undefined) =>
    `${mark} ${stepWords[name]}${message === undefined ? '' : `: ${message}`}`,
  figures: {
    checking: 'Checking',
    percent: (state: string, percent: number) => `${state} ${percent} %`,
    waits: 'waits',
    left: (ms: number) => `${formatSpan(ms)} left`,
  },
  context: 'Context',
  reload: 'Reload kubeconfig',
  asksFirst: (context: string) => `${context} (asks first)`,
  moreContexts: (count: number) => `${count} more: metal-agent context list`,
  address: 'Host address',
  automatic: 'Automatic',
  automaticIs: (address: string, network: string) => `Automatic (${address}, ${network})`,
  otherAddress: 'Other…',
  moreAddresses: (count: number) => `${count} more: metal-agent host-ip list`,
  notAnswered: 'The agent has not answered yet; open the menu again.',
  resume: { label: 'Resume this machine', toolTip: 'Publishes its models again.' },
  pause: { label: sharedWords.pause, toolTip: 'Withdraws its endpoints and keeps its models in memory.' },
  copyProxy: 'Copy URL for programs on this Mac',
  measurePower: 'Measure power…',
  resetPreferences: {
    label: 'Reset preferences',
    toolTip: 'Starts with the defaults; the broken file is kept next to it.',
  },
  takeOver: {
    why: 'The agent runs outside this app',
    label: 'Run the agent in this app…',
    toolTip: 'Models keep serving. You are asked first.',
  },
  move: {
    label: 'Move to Applications…',
    toolTip: 'It closes and opens again from there; models keep serving.',
  },
  open: 'Open Metalbar',
  settings: 'Settings…',
  app: 'This app',
  showTitle: 'Show figures beside the icon',
  askBeforeQuit: 'Ask before quitting',
  allowLoginItem: {
    label: 'Open at login: allow it in System Settings…',
    toolTip: 'macOS wants you to allow it, under General, Login Items.',
  },
  offerLoginItem: {
    label: 'Open Metalbar at login',
    toolTip: 'This Mac then serves its models again after a restart. You find this later under This app.',
  },
  commandLink: {
    install: 'Install the command metal-agent',
    linked: (folder: string) => `Command metal-agent in ${folder}`,
    unlinks: (file: string) => `Removes ${file}, which links to this app.`,
    repair: 'Repair the command metal-agent',
    isOutdated: (file: string) => `${file} links to where the app used to be.`,
    foreign: (folder: string) => `Another metal-agent is in ${folder}`,
  },
  quit: { staysRunning: 'Quit: the agent keeps running', asks: 'Quit…', drains: 'Quit: drain and stop' },
  logNotOpened: (why: string) => `The log cannot be opened: ${why}.`,
  logGone: (file: string) => `The log ${file} no longer exists.`,
  notOurLog: (file: string) => `${file} is not a log of this app; nothing was opened.`,
} as const satisfies Words

/** In the menu bar, while the window has the focus; macOS writes each word of an entry with a capital letter. */
export const menuBarWords = {
  checkForUpdates: 'Check for Updates…',
  quit: 'Quit Metalbar',
  window: 'Window',
} as const satisfies Words

const stays = 'Nothing was changed, and this version keeps running.'

/** Newer versions of the app: the entries of the menu, and what can go wrong. */
export const updateWords = {
  managed: 'Your administrator updates this Mac',
  look: 'Check for updates…',
  download: (version: string, bytes: number | undefined) =>
    bytes === undefined ? `Download Metalbar ${version}` : `Download Metalbar ${version} (${formatBytes(bytes)})`,
  downloading: (version: string, percent: number | undefined) =>
    percent === undefined ? `Downloading Metalbar ${version}` : `Downloading Metalbar ${version} · ${percent} %`,
  install: {
    label: (version: string) => `Restart to update to ${version}`,
    toolTip: 'Models keep serving meanwhile, and the new version takes them over.',
  },
  installing: (version: string) => `Preparing Metalbar ${version}…`,
  problems: {
    diskFull: `The disk is full, so the update was not stored. ${stays} Free some space and try again.`,
    folder: `The folder for updates, ~/Library/Caches, cannot be written. ${stays}`,
    checksum: `The download was deleted, since its checksum differs from the published one. ${stays} Try again later.`,
    signature: `The update is not signed by the publisher of this app, or was changed afterwards. It is not installed. ${stays}`,
    unsigned: 'This app is not signed, and macOS updates only signed ones: take the new version from the release page.',
    readOnly: 'The app is on a disk that cannot be written: move it to Applications first.',
    archive: `The update cannot be unpacked. It is not installed. ${stays}`,
    noRelease: 'The update server has no release.',
    certificate: `The certificate of the update server is not trusted. ${stays}`,
    serverError: 'The update server reports an error. Try again later.',
    notServed: `The update server does not serve the file that it announces. ${stays} Try again later.`,
    notUnderstood: `The update server sent an answer that cannot be read. ${stays} Try again later.`,
    interrupted: `The download was interrupted. ${stays} Try again.`,
    unreachable:
      'The update server cannot be reached: check that this machine is online, and that no proxy or firewall is in the way.',
    other: (why: string) => `The update failed: ${why}. ${stays}`,
    noAnswer: 'The update server does not answer. Try again later.',
    stalled: 'The update server stopped sending. Try again later.',
    gone: 'The downloaded update is gone: download it again.',
    notStaged: 'macOS did not prepare the update in time. Open the app again and try once more.',
    space: (needed: number, free: number) =>
      `The update needs ${formatBytes(needed)} of disk space for a while, and ${formatBytes(free)} are free. Free some space and try again.`,
    otherStep: 'That no longer applies; the update has moved on.',
  },
} as const satisfies Words

/** Questions and messages of the app, each in a box of the system. */
export const questionWords = {
  ok: 'OK',
  cancel: 'Cancel',
  losesWritten: {
    message: 'The window has changes that are not applied.',
    detail: 'They are lost when it opens as a window of its own. Apply or discard them first, or open it without them.',
    yes: 'Open without them',
  },
  quit: {
    message: 'Models are running, and quitting stops them.',
    detail: sharedWords.onQuitHelp,
    remember: 'Do not ask again',
    notRemembered: (why: string) => `Done, but your choice was not saved: ${why}`,
  },
  hiddenIcon: {
    message: 'The icon of Metalbar is not in the menu bar.',
    detail: 'There is no room in the menu bar. Metalbar is still running: open the app again to see its window.',
  },
  cannotStart: 'Metalbar cannot start.',
  takeOver: {
    message: 'Run the agent in this app?',
    detail:
      'The running metal-agent stops and this app takes over its models. Its flags no longer apply. If launchd or brew services would start it again, stop it there first: brew services stop metal-agent.',
    yes: 'Run it here',
  },
  move: {
    detail:
      'In Applications it can be updated and opened at login. It closes, moves and opens again; models keep serving.',
    yes: sharedWords.moveToApplications,
    no: 'Not now',
  },
  replace: {
    message: 'Metalbar is already in Applications.',
    detail: 'This copy takes its place. Settings and models stay as they are.',
    yes: 'Replace it',
  },
  uninstall: {
    message: 'Remove everything that you ticked from this Mac and the cluster?',
    detail: 'Models finish their requests and stop first; then the app quits. This cannot be undone.',
    yes: 'Uninstall',
  },
  uninstalled: {
    all: 'Everything that you ticked was removed.',
    notAll: 'Not everything could be removed.',
    failed: 'Metalbar could not be uninstalled.',
    appStays: 'The app itself is still there. Drag it to the Trash to remove it.',
    trash: 'Move to the Trash and quit',
    quit: 'Quit',
    copy: 'Copy the commands',
  },
  power: {
    install: 'Only root can run powermetrics. Terminal runs this script, which asks for your password:',
    remove:
      'sudo will ask for a password before powermetrics runs, so it can no longer measure power. Terminal runs this script, which asks for your password:',
    yes: 'Open Terminal',
  },
  files: {
    kubeconfig: 'Choose a kubeconfig',
    executable: 'Choose a program',
    tokenFile: 'Choose the file that holds the token',
    certificates: 'Choose a file of certificate authorities',
  } satisfies Words<ChosenFile>,
  choose: 'Choose',
} as const satisfies Words

/** Notifications: what icon and menu say too, and what is said once. */
export const newsWords = {
  titles: {
    crashes: (name: string) => `${name} keeps crashing`,
    doesNotFit: (name: string) => `${name} does not fit into memory`,
    refused: (name: string) => `${name} was refused`,
    evicted: (name: string) => `${name} was evicted: memory was short`,
  },
  clusterLost: (context: string) => `${context} does not answer`,
  keepServing: (message: string) => `Models keep serving. ${message}`,
  clusterBack: { title: (context: string) => `${context} answers again`, body: 'Models are published as before.' },
  loginItem: {
    title: 'Open Metalbar at login?',
    body: 'This Mac then serves its models again after a restart. You find this later in the menu, under This app.',
  },
  keptServing: 'Models kept serving.',
  afterDefect: {
    title: 'Metalbar was restarted',
    body: 'It ended because of an error of its own. Models kept serving. Help has a report that you can send.',
  },
  available: {
    title: (version: string) => `Metalbar ${version} is available`,
    body: 'Download and install it under Settings.',
  },
  linked: {
    title: 'The command metal-agent is installed',
    body: (file: string) => `It is ${file}. Open a new terminal to use it.`,
  },
} as const satisfies Words

/** What the doctor finds out about the app itself. */
export const doctorWords = {
  restart: 'Does the agent come back after a restart?',
  loginItem: {
    enabled: 'Metalbar opens at login.',
    'requires-approval': 'Metalbar should open at login, but macOS waits for your permission.',
    'not-registered': 'Metalbar does not open at login, so nothing is served after a restart until you open it.',
    unavailable: sharedWords.onlyInstalled,
  } satisfies Words<LoginItemState>,
  allowLoginItem: 'Allow Metalbar in System Settings, General, Login Items.',
  switchOn: 'Switch on Open at login, in Settings or in the menu of the icon.',
  service: 'A system service starts the agent, with or without this app.',
  icon: 'Can the icon of Metalbar be seen?',
  icons: {
    shown: 'The icon is in the menu bar.',
    hidden: 'macOS has no room for the icon in the menu bar, or it is behind the camera of the display.',
    unknown: 'This system does not report where icons are.',
  },
  makeRoom:
    'Quit a menu bar app you do not need, or hold Command and drag icons to make room. Opening Metalbar again opens its window.',
} as const satisfies Words

/** The window, as far as the app answers it or cannot show it. */
export const windowWords = {
  crashed:
    'The window crashed twice within a minute, so it stays closed. Choose Open Metalbar to try again. Models keep serving, and this menu still works.',
  notLoaded: 'The window did not load; the log of the app says why. This menu still works.',
  notOurPage: 'Only the window of this app may ask the agent.',
  noWindow: 'This page belongs to no window.',
  closed: 'The window is closed.',
  notUnderstood: (why: string) => `The app did not understand its window: ${why}`,
  failed: 'That did not work; the log of the app says why.',
  noLog: 'That run has no log file.',
  followsTooMuch: 'Internal error: the window follows too much at once.',
  follows: (id: string) => `Internal error: the window already follows something as ${id}.`,
  asksTooMuch: 'Internal error: the window asks too much at once.',
  asks: (id: string) => `Internal error: the window already asks something as ${id}.`,
} as const satisfies Words

/** What the app does on this Mac, where it does not work out, and its own files. */
export const machineWords = {
  file: (what: string, file: string, why: string) =>
    `The ${what} ${file} cannot be used: ${why}; repair the file and open Metalbar again, or choose Reset preferences in the menu.`,
  files: { preferences: 'preferences', start: 'start settings' },
  fileKey: (key: string, why: string) => `"${key}" ${why}`,
  unusable: 'cannot be used',
  noPreferences: 'preferences.json cannot be used: choose Reset preferences in the menu first.',
  loginShell: {
    none: (why: string, shell: string) =>
      `Your login shell did not answer, so KUBECONFIG, proxies and similar variables are missing: ${why} ` +
      `Run \`${shell} -ilc env\` in Terminal to see why, and start Metalbar again.`,
    noOutput: (shell: string, exitCode: number | null) =>
      `${shell} printed no environment (exit code ${exitCode ?? 'none'}).`,
  },
  token: {
    isNone:
      'This is not a token: it is empty, too long, or has spaces or other characters that no token has. Copy it again from huggingface.co.',
    noKeychain:
      'This machine has no keychain that the app can use: write the token into a file that only you can read, and name it in the settings.',
    notKept: (why: string) => `The token was not kept: ${why}.`,
    unreadable: 'the keychain does not give it back',
  },
  loginItem: {
    unknown: 'macOS does not find the app: move it to Applications, and switch this on again.',
    place: 'System Settings, General, Login Items',
  },
  command: {
    unavailable: 'Only the app in Applications has a command that can be linked.',
    foreign: (file: string) =>
      `${file} does not belong to this app and was left alone. Remove it first if you want this app's command there.`,
    noFolder: (line: string) =>
      `No folder of your PATH can be written. Run this in a terminal; it asks for your password: ${line}`,
    notMade: (file: string, why: string) => `${file} cannot be created: ${why}.`,
    notRemoved: (file: string, why: string) => `${file} cannot be removed: ${why}.`,
  },
  move: {
    failed: (why: string) => `Metalbar was not moved to Applications: ${why}.`,
    isRunning: 'the Metalbar there is running, so quit it first',
    refused: 'macOS refused, so drag it there in the Finder',
  },
  power: {
    allowed: 'sudo lets powermetrics run without a password.',
    refused: 'sudo asks for a password again before powermetrics runs.',
    notAllowed: 'sudo does not let this user measure power yet: the output in Terminal says why.',
    stillAllowed: 'sudo still lets powermetrics run without a password: the output in Terminal says why.',
    notOpened: (why: string) => `Terminal cannot be opened: ${why}.`,
    notEnded: 'The script in Terminal did not end in time. Try again.',
    /** At the top of the script that a person is shown. */
    script: {
      install:
        'shows the rule by which sudo lets powermetrics run, has visudo check it, and has sudo write it, which asks for your password.',
      remove: 'has sudo delete the rule by which it lets powermetrics run, which asks for your password.',
    } satisfies Words<PowerRuleChange>,
  },
  uninstallWhere: 'Metalbar can be uninstalled only on a Mac or on Linux.',
} as const satisfies Words
