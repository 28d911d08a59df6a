import { classNames } from '../components/class-names.ts'
import { useWindow } from '../store.ts'
import { Alerts } from './alerts.tsx'
import { Header } from './header.tsx'
import styles from './metalbar-window.module.css'
import { NotConnected } from './not-connected.tsx'
import { Overview } from './overview.tsx'

export function MetalbarWindow() {
  const hasSnapshot = useWindow(({ snapshot }) => snapshot !== undefined)
  const connection = useWindow((state) => state.connection)
  if (!hasSnapshot || connection.state === 'refused') return <NotConnected connection={connection} />
  return (
    <div className={classNames(styles['window'], connection.state === 'gone' && styles['stale'])}>
      <Header />
      <Alerts />
      <main className={styles['main']}>
        <Overview />
      </main>
    </div>
  )
}
