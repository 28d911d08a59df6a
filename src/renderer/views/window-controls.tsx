import { useEffect, useState } from 'react'
import type { AppBridge, BridgeReply } from '../../contract/app-bridge.ts'
import { Button } from '../components/button.tsx'
import { CloseGlyph, TearOffGlyph } from '../components/glyph.tsx'
import { useApp, useWindow } from '../store.ts'
import { windowWords } from '../words/connection.ts'
import styles from './window-controls.module.css'

/** Of the window under the icon, which has no title bar; a page in a browser has nothing of it. */
export function WindowControls() {
  const app = useApp()
  return app === undefined ? null : <UnderIcon app={app} />
}

function UnderIcon({ app }: { readonly app: AppBridge }) {
  const view = useWindow((state) => state.view)
  const service = useWindow((state) => state.selected)
  const [isUnderIcon, setIsUnderIcon] = useState(false)
  const [problem, setProblem] = useState<string>()
  // Once: a window that is torn off has another page.
  useEffect(() => {
    void app.appState().then((reply) => setIsUnderIcon(reply.ok && !reply.value.isTornOff))
  }, [app])
  const press = async (asked: Promise<BridgeReply<null>>) => {
    const reply = await asked
    setProblem(reply.ok ? undefined : reply.failure.message)
  }
  if (!isUnderIcon) return null
  const at = view === 'services' && service !== undefined ? { service } : { view }
  return (
    <>
      <div role="group" aria-label={windowWords.title} className={styles['controls']}>
        <Button look="plain" label={windowWords.tearOff} onPress={() => void press(app.tearOff(at))}>
          <TearOffGlyph />
        </Button>
        <Button look="plain" label={windowWords.hide} onPress={() => void press(app.hide())}>
          <CloseGlyph />
        </Button>
      </div>
      {problem !== undefined && (
        <span className={styles['problem']} role="alert">
          {problem}
        </span>
      )}
    </>
  )
}
