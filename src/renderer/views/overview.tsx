import { useEffect, useRef } from 'react'
import type { ServiceView } from '../../contract/service.ts'
import { sharedWords } from '../../contract/words.ts'
import { Folded } from '../components/blocks.tsx'
import { Button, Command } from '../components/buttons.tsx'
import { firstServiceCommand } from '../first-run.ts'
import { useSnapshot, useWindow } from '../store.ts'
import { noServiceWords } from '../words/first-run.ts'
import { addWords } from '../words/models.ts'
import { nodeWords } from '../words/services.ts'
import { overviewWords } from '../words/window.ts'
import { Answer, AskButton } from './answer.tsx'
import { AppBanners, Banners } from './banners.tsx'
import { deletionOf, isDeletion } from './delete-service.tsx'
import { FirstRun } from './first-run.tsx'
import { Later } from './later.tsx'
import { CopyUrl } from './service-cards.tsx'
import { ServiceDetail } from './service-detail.tsx'
import { ServiceList } from './service-list.tsx'
import styles from './overview.module.css'

/** The services of this machine. A narrow window shows the list or the open service, a wide one both. */
export function Overview() {
  const services = useSnapshot((snapshot) => snapshot.services)
  const selected = useWindow((state) => state.selected)
  const isAdding = useWindow((state) => state.isAdding)
  const open = isAdding ? undefined : services.find(({ uid }) => uid === selected)
  const isAsideOpen = isAdding || open !== undefined
  const list = useRef<HTMLElement>(null)
  const wasOpen = useRef(false)
  useEffect(() => {
    // What goes away takes the focus with it.
    if (wasOpen.current && !isAsideOpen && document.activeElement === document.body) {
      list.current?.focus()
    }
    wasOpen.current = isAsideOpen
  }, [isAsideOpen])
  return (
    <div className={styles['overview']} data-open={isAsideOpen}>
      <section ref={list} tabIndex={-1} className={styles['list']} aria-label={overviewWords.title}>
        <AppBanners />
        <Banners />
        <Deletions services={services} />
        {services.length === 0 ? <NothingYet /> : <Services services={services} />}
        <NodeActions />
        <About />
      </section>
      {open !== undefined && <ServiceDetail key={open.uid} service={open} />}
      {isAdding && <Later part="addModel" />}
      {!isAsideOpen && services.length > 0 && <p className={styles['nothingOpen']}>{overviewWords.choose}</p>}
    </div>
  )
}

function Services({ services }: { readonly services: readonly ServiceView[] }) {
  const add = useWindow((state) => state.add)
  return (
    <>
      <div className={styles['add']}>
        <Button look="plain" onPress={() => add()}>
          {addWords.open}
        </Button>
      </div>
      <ServiceList services={services} />
    </>
  )
}

/** What came of deletions, once the service that they were asked at is gone. */
function Deletions({ services }: { readonly services: readonly ServiceView[] }) {
  const requests = useWindow((state) => state.requests)
  const shown = new Set(services.map(({ uid }) => deletionOf(uid)))
  return Object.keys(requests)
    .filter((about) => isDeletion(about) && !shown.has(about))
    .map((about) => <Answer key={about} about={about} />)
}

const NothingYet = () => (
  <>
    <FirstRun />
    <NoServices />
  </>
)

function About() {
  const name = useSnapshot((snapshot) => snapshot.host.displayName)
  const version = useSnapshot((snapshot) => snapshot.version)
  return <p className={styles['about']}>{overviewWords.about(name, version)}</p>
}

/** Only a cluster that answers can say that there is nothing. */
function NoServices() {
  const add = useWindow((state) => state.add)
  const cluster = useSnapshot((snapshot) => snapshot.cluster)
  if (cluster.state !== 'live') return <p className={styles['unknown']}>{noServiceWords.unknown}</p>
  return (
    <div className={styles['empty']}>
      <h2>{noServiceWords.title}</h2>
      <p>
        {noServiceWords.where(cluster.namespace)} <code>{noServiceWords.accelerator}</code>.
      </p>
      <Button look="prominent" onPress={() => add()}>
        {addWords.open}
      </Button>
      <Folded title={noServiceWords.makes}>
        <Command text={firstServiceCommand(cluster)} />
      </Folded>
    </div>
  )
}

/** What concerns the whole machine. */
function NodeActions() {
  const paused = useSnapshot(({ host }) => host.paused)
  const proxy = useSnapshot(({ host }) => host.clientProxy)
  return (
    <section className={styles['node']} aria-label={nodeWords.title}>
      {proxy !== undefined && (
        <p className={styles['proxy']}>
          {nodeWords.proxy} <CopyUrl url={`${proxy}/v1`} />
        </p>
      )}
      <div className={styles['actions']}>
        {!paused && (
          <AskButton about="node" command={{ name: 'pauseNode' }}>
            {sharedWords.pause}
          </AskButton>
        )}
        <AskButton about="resync" command={{ name: 'resync' }}>
          {nodeWords.resync}
        </AskButton>
      </div>
      <Answer about="resync" />
    </section>
  )
}
