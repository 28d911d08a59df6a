import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { type Bridge, verbsOver, windowViews } from '../contract/app-bridge.ts'
import { linkOverBridge } from './link/connection.ts'
import { linkOverHttp, takeToken, whileSeen } from './link/http.ts'
import { createWindowStore, tellUnsaved, WindowContext, type WindowStore } from './store.ts'
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

const service = '#service/'

/**
 * Turns the window to what the app names: `#settings`, `#settings/` and the name of a setting or the id of a part, or `#service/` and a uid;
 * behind a `?` the number of the turn.
 */
function showPlace(store: WindowStore, address: string): void {
  const [fragment = ''] = address.split('?')
  const { show, select, leadTo } = store.getState()
  const [place = '', field] = fragment.startsWith(service) ? [] : fragment.split('/')
  const view = windowViews.find((name) => place === `#${name}`)
  if (view) {
    show(view)
    if (field !== undefined) leadTo(field)
  } else if (fragment.startsWith(service)) select(decodeURIComponent(fragment.slice(service.length)))
}

const link =
  window.metalbar === undefined
    ? whileSeen(
        linkOverHttp({ origin: window.location.origin, token: takeToken(window), storage: sessionStorage }),
        document,
      )
    : linkOverBridge(window.metalbar)
const app = window.metalbar && verbsOver(window.metalbar)
const store = createWindowStore(link)
store.getState().reconnect()
document.addEventListener('visibilitychange', () => {
  const { connection, reconnect } = store.getState()
  if (document.visibilityState === 'visible' && connection.state === 'gone') reconnect()
})
if (app === undefined) {
  // A new address with another token, pasted over the old one, loads no page by itself.
  window.addEventListener('hashchange', () => window.location.reload())
} else {
  tellUnsaved(store, (hasIt) => void app.keep(hasIt))
  showPlace(store, window.location.hash)
  window.addEventListener('hashchange', () => showPlace(store, window.location.hash))
}

const root = document.querySelector('#root')
if (root === null) throw new Error('index.html has no element with the id "root".')
createRoot(root).render(
  <StrictMode>
    <WindowContext value={{ store, link, app }}>
      <MetalbarWindow />
    </WindowContext>
  </StrictMode>,
)
