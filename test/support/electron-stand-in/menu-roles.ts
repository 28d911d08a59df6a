import { focusedWindow } from './windows.ts'

/** The keys that a role has of itself. */
export const roleAccelerators: Readonly<Record<string, string>> = {
  close: 'CommandOrControl+W',
  minimize: 'CommandOrControl+M',
  hide: 'Command+H',
  hideOthers: 'Command+Alt+H',
  quit: 'CommandOrControl+Q',
}

export function carryOutRole(app: { quit(): void }, role: string): void {
  if (role === 'close') focusedWindow()?.close()
  if (role === 'quit') app.quit()
}
