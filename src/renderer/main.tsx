import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import type { Bridge } from '../contract/app-bridge.ts'
import { takeToken } from './link/access.ts'
import { linkOverBridge } from './link/bridge.ts'
import { linkOverHttp } from './link/http.ts'
import { whileSeen } from './link/while-seen.ts'
import { showPlace } from './place.ts'
import { createWindowStore, WindowContext } from './store.ts'
import { tellUnsaved } from './unsaved.ts'
import './styles/tokens.css'
import './styles/base.css'
import './styles/forced-colors.css'
import { MetalbarWindow } from './views/metalbar-window.tsx'

declare global {
  interface Window {
    /** There in the app's window, and absent in a browser. */
    readonly metalbar?: Bridge
  }
}

const link =
  window.metalbar === undefined
    ? whileSeen(
        linkOverHttp({ origin: window.location.origin, token: takeToken(window), storage: sessionStorage }),
        document,
      )
    : linkOverBridge(window.metalbar)
const store = createWindowStore(link)
store.getState().reconnect()
document.addEventListener('visibilitychange', () => {
  const { connection, reconnect } = store.getState()
  if (document.visibilityState === 'visible' && connection.state === 'gone') reconnect()
})
if (window.metalbar === undefined) {
  // A new address with another token, pasted over the old one, loads no page by itself.
  window.addEventListener('hashchange', () => window.location.reload())
} else {
  const app = window.metalbar
  tellUnsaved(store, (hasIt) => void app.keep(hasIt))
  showPlace(store, window.location.hash)
  window.addEventListener('hashchange', () => showPlace(store, window.location.hash))
}

const root = document.querySelector('#root')
if (root === null) throw new Error('index.html has no element with the id "root".')
createRoot(root).render(
  <StrictMode>
    <WindowContext value={{ store, link, app: window.metalbar }}>
      <MetalbarWindow />
    </WindowContext>
  </StrictMode>,
)
