import { useEffect, useRef } from 'react'
import { TabPanel, Tabs } from 'react-aria-components/Tabs'
import { windowViews } from '../../contract/app-bridge.ts'
import { classNames } from '../components/class-names.ts'
import { useWindow } from '../store.ts'
import { Alerts } from './alerts.tsx'
import { Header } from './header.tsx'
import { Later, useLaterParts } from './later.tsx'
import styles from './metalbar-window.module.css'
import { NotConnected } from './not-connected.tsx'
import { Overview } from './overview.tsx'
import { ViewTabs } from './view-tabs.tsx'

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
      </main>
    </Tabs>
  )
}
