import { useEffect, useRef } from 'react'
import { Tab, TabList, TabPanel, Tabs } from 'react-aria-components/Tabs'
import { windowViews } from '../../contract/app-bridge.ts'
import { Button } from '../components/buttons.tsx'
import { ErrorGlyph, Spinner } from '../components/glyph.tsx'
import { classNames, LocalUntil, Said } from '../components/text.tsx'
import type { Connection } from '../link/connection.ts'
import { useWindow } from '../store.ts'
import { viewWords } from '../words/services.ts'
import { connectionWords, overviewWords } from '../words/window.ts'
import { Alerts, Header } from './header.tsx'
import { Later, useLaterParts } from './later.tsx'
import { Overview } from './overview.tsx'
import styles from './metalbar-window.module.css'

export function MetalbarWindow() {
  const hasSnapshot = useWindow(({ snapshot }) => snapshot !== undefined)
  const connection = useWindow((state) => state.connection)
  if (!hasSnapshot || connection.state === 'refused') return <NotConnected connection={connection} />
  return <Views isStale={connection.state === 'gone'} />
}

function Views({ isStale }: { readonly isStale: boolean }) {
  const view = useWindow((state) => state.view)
  const show = useWindow((state) => state.show)
  useLaterParts()
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    // Where the whole window scrolls, another view begins at its beginning.
    if (box.current !== null) box.current.scrollTop = 0
  }, [view])
  return (
    <Tabs
      ref={box}
      className={classNames(styles['window'], isStale && styles['stale'])}
      selectedKey={view}
      onSelectionChange={(key) => {
        const chosen = windowViews.find((name) => name === key)
        if (chosen !== undefined) show(chosen)
      }}
    >
      <Header />
      <Alerts />
      {/* Before the panels, which take their ids from it; it is drawn below them. */}
      <ViewTabs />
      <main className={styles['main']}>
        <TabPanel id="services" className={classNames(styles['panel'])}>
          <Overview />
        </TabPanel>
        <TabPanel id="models" className={classNames(styles['panel'])}>
          <Later part="models" />
        </TabPanel>
        <TabPanel id="activity" className={classNames(styles['panel'])}>
          <Later part="activity" />
        </TabPanel>
        <TabPanel id="settings" className={classNames(styles['panel'])}>
          <Later part="settings" />
        </TabPanel>
        <TabPanel id="help" className={classNames(styles['panel'])}>
          <Later part="help" />
        </TabPanel>
      </main>
    </Tabs>
  )
}

/** From one view of the window to another. */
function ViewTabs() {
  return (
    <nav className={styles['bar']} aria-label={overviewWords.views}>
      <TabList className={classNames(styles['tabs'])} aria-label={overviewWords.views}>
        {windowViews.map((name) => (
          <Tab key={name} id={name} className={classNames(styles['tab'])}>
            {viewWords[name]}
          </Tab>
        ))}
      </TabList>
    </nav>
  )
}

/** In place of the window's content while there is none. */
function NotConnected({ connection }: { readonly connection: Connection }) {
  const reconnect = useWindow((state) => state.reconnect)
  if (connection.state === 'connecting' || connection.state === 'live') {
    return (
      <main className={styles['page']}>
        <Spinner />
        <h1>{connectionWords.connecting}</h1>
      </main>
    )
  }
  return (
    <main className={styles['page']}>
      <ErrorGlyph />
      <div role="alert">
        <h1>{connection.state === 'gone' ? connectionWords.noAgent : connectionWords.noAccess}</h1>
        <Said text={connection.message} />
      </div>
      {connection.state === 'gone' && (
        <p className={styles['aside']}>
          <LocalUntil at={connection.retryAt} words={connectionWords.nextTry} />
        </p>
      )}
      <Button onPress={reconnect}>{connectionWords.tryNow}</Button>
    </main>
  )
}
