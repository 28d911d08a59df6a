import { app, dialog, shell } from 'electron'
import type { ChosenFile, SystemPane } from '../contract/app-bridge.ts'
import { localNetworkPane } from '../contract/cluster.ts'

const titles: Readonly<Record<ChosenFile, string>> = {
  kubeconfig: 'Choose a kubeconfig',
  executable: 'Choose a program',
  tokenFile: 'Choose the file that holds the token',
  certificates: 'Choose a file of certificate authorities',
}

/** Undefined where the person chose none. A page never names a file to be opened: what is chosen is only told to it. */
export async function chooseFile(what: ChosenFile): Promise<string | undefined> {
  // Without it the dialog of an app that has no icon in the Dock may open behind the app a person works in.
  app.focus({ steal: true })
  const { canceled, filePaths } = await dialog.showOpenDialog({
    title: titles[what],
    message: titles[what],
    buttonLabel: 'Choose',
    // A kubeconfig is in a folder that the system hides, and a program may be a link to another.
    properties: ['openFile', 'showHiddenFiles', 'noResolveAliases'],
  })
  return canceled ? undefined : filePaths[0]
}

/** All that is ever opened outside of the app by a page; it names one, and no address. */
const panes: Readonly<Record<SystemPane, string>> = {
  loginItems: 'x-apple.systempreferences:com.apple.LoginItems-Settings.extension',
  localNetwork: localNetworkPane,
  notifications: 'x-apple.systempreferences:com.apple.Notifications-Settings.extension',
}

export const openPane = (pane: SystemPane): Promise<void> => shell.openExternal(panes[pane])
