import { contextBridge, ipcRenderer } from 'electron'
import type { Bridge, BridgeReply, Push } from '../../contract/app-bridge.ts'
import { channel } from '../ipc-channels.ts'

const bridge: Bridge = {
  // What main answers was checked by main, as is what the page says.
  ask: (verb, content) => ipcRenderer.invoke(channel, { verb, content }) as Promise<BridgeReply<never>>,
  onPush: (take) => void ipcRenderer.on(channel, (_event, push: Push) => take(push)),
}
contextBridge.exposeInMainWorld('metalbar', bridge)

// After the page's own listeners: a question or a menu that is open takes the key for itself.
addEventListener('keydown', ({ key, defaultPrevented }) => {
  if (key === 'Escape' && !defaultPrevented) void bridge.ask('hide')
})

// A panel says this of itself to nobody but its page.
addEventListener('focus', () => void bridge.ask('focus', true))
addEventListener('blur', () => void bridge.ask('focus', false))
