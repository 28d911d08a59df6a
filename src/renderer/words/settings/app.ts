import type { AppPreferences, HubTokenState, LoginItemState } from '../../../contract/app-bridge.ts'

/** What concerns the app itself, and the token that it keeps; a page in a browser has nothing of it. */
export const appWords = {
  loginItem: 'Open at login',
  loginItems: {
    'not-registered': 'It is not opened when you log in.',
    enabled: 'It is opened when you log in.',
    'requires-approval': 'macOS waits for your leave: allow Metalbar in System Settings, under Login Items.',
    unavailable: 'Only the app in Applications can be opened at login.',
  } satisfies Record<LoginItemState, string>,
  openLoginItems: 'Open Login Items…',
  onQuit: 'When you quit while models run',
  onQuits: {
    ask: 'Ask',
    drain: 'Drain and stop',
    keep: 'Keep in menu bar',
  } satisfies Record<AppPreferences['onQuit'], string>,
  onQuitHelp:
    'Drain and stop withdraws the models from the cluster, lets requests in flight finish and ends their servers; in the menu bar they go on.',
  notifications: 'Notifications',
  notificationsHelp:
    'For what needs you: a crash loop, a refusal, a model that had to leave memory. The window always says it too.',
  openNotifications: 'Open Notifications…',
  showTitle: 'Figures beside the icon',
  showTitleHelp: 'Models, memory and watts, such as 2 · 38 GB · 41 W.',
  noPreferences: 'The preferences cannot be used; the menu says why, and can reset them.',
  token: 'Token',
  tokenStates: {
    none: 'The app keeps no token.',
    kept: 'The app keeps a token, encrypted with a key of the keychain. It is never shown again.',
    unreadable: 'The keychain does not give the token back: write it anew, or remove it.',
    unavailable: 'This machine has no keychain: write the token into a file that only you can read, and name it below.',
  } satisfies Record<HubTokenState, string>,
  tokenElsewhere: 'Another program runs the agent, which gets no token of the app.',
  tokenHelp: 'From huggingface.co, Settings, Access Tokens; the right to read is enough. It begins with hf_.',
  keepToken: 'Keep it',
  keepTokenLabel: 'Keep it: the Hugging Face token',
  removeToken: 'Remove the token',
  removeTokenSure: 'It is deleted here for good; huggingface.co still knows it.',
  removeTokenNow: 'Yes, remove it',
  keepTokenHere: 'Keep the token',
} as const
