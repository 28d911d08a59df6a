import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { createContext, runInContext } from 'node:vm'
import type { Bridge } from '../../../src/contract/bridge.ts'
import { channels } from '../../../src/main/ipc-channels.ts'
import { serveIpc } from '../../../src/main/ipc.ts'
import { lazyLink } from '../../../src/main/lazy-link.ts'
import { linkOverBridge } from '../../../src/renderer/link/bridge.ts'
import { connectToAgent } from '../../../src/serve/client/agent-client.ts'
import { serveOnSocket } from '../../../src/serve/socket-server.ts'
import { BrowserWindow } from '../electron-stand-in/browser-window.ts'
import { invoke, ipcMain } from '../electron-stand-in/ipc-main.ts'
import { preloadScript } from '../electron-stand-in/preload-script.ts'
import { silentLog } from '../silent-log.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import type { Carrier } from './carrier.ts'

/** As it is shipped. */
const preload = path.join(import.meta.dirname, '../../../out/main/preload.cjs')

/**
 * The app's window that shows the agent of its state folder, which is another process: page, preload script, main process, socket. The test
 * that uses it must have put the stand-in in the place of Electron.
 */
export const ipcCarrier: Carrier = {
  name: 'Electron IPC',
  trust: 'shell',
  async start(door) {
    const { dir, ...folder } = await temporaryFolder()
    const place = { socketPath: path.join(dir, 'agent.sock'), stateDir: dir }
    const errors: unknown[] = []
    const result = await serveOnSocket({ ...place, version: '1.2.3', door, onError: (error) => errors.push(error) })
    if (!result.ok) throw new Error(result.message)
    const { server } = result
    const client = connectToAgent(place)
    serveIpc(
      lazyLink(() => client),
      { ...silentLog, error: (_, fields) => errors.push(fields) },
    )
    const window = await openWindow()
    return {
      link: linkOverBridge(window.bridge),
      errors,
      end: () => server.close(),
      async [Symbol.asyncDispose]() {
        window.close()
        await (await client).close()
        await server.close()
        await folder[Symbol.asyncDispose]()
      },
    }
  },
}

/** A window whose page is a JavaScript world of its own, as a page's is, with nothing in it but what the preload script puts there. */
async function openWindow(): Promise<{ readonly bridge: Bridge; readonly close: () => void }> {
  const window = new BrowserWindow({ width: 400, height: 620, webPreferences: { preload } })
  const { webContents } = window
  webContents.navigated('app://metalbar/index.html')
  const page: PageGlobals = {
    Promise,
    structuredClone,
    // Nobody presses a key.
    addEventListener: () => undefined,
    electronInvoke: (channel, content) =>
      invoke({ sender: webContents, senderFrame: webContents.mainFrame }, channel, content),
  }
  runInContext(preloadScript(await readFile(preload, 'utf8')), createContext(page))
  const { electronReceive, metalbar } = page
  if (!electronReceive || !metalbar) throw new Error('The preload script put no bridge into the page.')
  webContents.page = Promise.resolve({
    goto: () => Promise.resolve(),
    receive: (channel, content) => {
      electronReceive(channel, content)
      return Promise.resolve()
    },
    close: () => Promise.resolve(),
  })
  window.show()
  return {
    bridge: metalbar,
    close: () => {
      window.destroy()
      for (const channel of Object.values(channels)) ipcMain.removeHandler(channel)
    },
  }
}

interface PageGlobals {
  /** That of this world, so that the stand-in knows its promises. */
  readonly Promise: PromiseConstructor
  readonly structuredClone: typeof structuredClone
  readonly addEventListener: () => void
  readonly electronInvoke: (channel: string, content: readonly unknown[]) => Promise<unknown>
  /** Put there by the stand-in and by the preload script. */
  electronReceive?: (channel: string, content: readonly unknown[]) => void
  metalbar?: Bridge
}
