import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { classNames } from '../components/class-names.ts'
import { useWindow } from '../store.ts'
import { Alerts } from './alerts.tsx'
import { Banners } from './banners.tsx'
import { Header } from './header.tsx'
import styles from './metalbar-window.module.css'
import { NoServices } from './no-services.tsx'
import { NotConnected } from './not-connected.tsx'
import { ServiceDetail } from './service-detail.tsx'
import { ServiceList } from './service-list.tsx'

export function MetalbarWindow() {
  const snapshot = useWindow((state) => state.snapshot)
  const connection = useWindow((state) => state.connection)
  if (snapshot === undefined || connection.state === 'refused') return <NotConnected connection={connection} />
  return (
    <div className={classNames(styles['window'], connection.state === 'gone' && styles['stale'])}>
      <Header snapshot={snapshot} />
      <Alerts cluster={snapshot.cluster} />
      <Content snapshot={snapshot} />
    </div>
  )
}

/** A narrow window shows the list or the open service, a wide one both. */
function Content({ snapshot }: { readonly snapshot: AgentSnapshot }) {
  const selected = useWindow((state) => state.selected)
  const open = snapshot.services.find(({ uid }) => uid === selected)
  return (
    <main className={styles['main']} data-open={open !== undefined}>
      <section className={styles['list']} aria-label="Overview">
        <Banners snapshot={snapshot} />
        {snapshot.services.length === 0 ? (
          <NoServices cluster={snapshot.cluster} />
        ) : (
          <ServiceList services={snapshot.services} />
        )}
        <p className={styles['about']}>
          {snapshot.host.displayName} · agent {snapshot.version}
        </p>
      </section>
      {open !== undefined && <ServiceDetail key={open.uid} service={open} />}
      {open === undefined && snapshot.services.length > 0 && (
        <p className={styles['nothingOpen']}>Choose a service to see its steps, its log and what can be done.</p>
      )}
    </main>
  )
}
