import { useSnapshot, useWindow } from '../store.ts'
import { Banners } from './banners.tsx'
import { NoServices } from './no-services.tsx'
import styles from './overview.module.css'
import { ServiceDetail } from './service-detail.tsx'
import { ServiceList } from './service-list.tsx'

/** The services of this machine. A narrow window shows the list or the open service, a wide one both. */
export function Overview() {
  const services = useSnapshot((snapshot) => snapshot.services)
  const selected = useWindow((state) => state.selected)
  const open = services.find(({ uid }) => uid === selected)
  return (
    <div className={styles['overview']} data-open={open !== undefined}>
      <section className={styles['list']} aria-label="Overview">
        <Banners />
        {services.length === 0 ? <NoServices /> : <ServiceList services={services} />}
        <About />
      </section>
      {open !== undefined && <ServiceDetail key={open.uid} service={open} />}
      {open === undefined && services.length > 0 && (
        <p className={styles['nothingOpen']}>Choose a service to see its steps, its log and what can be done.</p>
      )}
    </div>
  )
}

function About() {
  const name = useSnapshot((snapshot) => snapshot.host.displayName)
  const version = useSnapshot((snapshot) => snapshot.version)
  return (
    <p className={styles['about']}>
      {name} · agent {version}
    </p>
  )
}
