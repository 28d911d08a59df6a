import { useEffect, useState } from 'react'
import type { AppBridge, BridgeReply } from '../../contract/app-bridge.ts'
import type { ClusterView } from '../../contract/cluster.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { clusterWords, sharedWords } from '../../contract/words.ts'
import { Banner } from '../components/blocks.tsx'
import { Button, CopyButton } from '../components/buttons.tsx'
import { CloseGlyph, LinkGlyph, TearOffGlyph } from '../components/glyph.tsx'
import { Age, LocalAge, LocalUntil, Said, Spoken, Until } from '../components/text.tsx'
import { useApp, useSnapshot, useWindow } from '../store.ts'
import { connectionWords, windowWords } from '../words/window.ts'
import { MemoryBar } from './memory-bar.tsx'
import { PowerStrip } from './power-strip.tsx'
import styles from './header.module.css'

/** Where this machine stands, its memory and its power, above every view. */
export function Header() {
  return (
    <header className={styles['header']}>
      <h1>
        <Spoken>{sharedWords.app}</Spoken>
      </h1>
      <Place />
      <div className={styles['gauges']}>
        <MemoryBar />
        <PowerStrip />
      </div>
    </header>
  )
}

function Place() {
  const cluster = useSnapshot((snapshot) => snapshot.cluster)
  const address = useSnapshot((snapshot) => snapshot.host.address)
  return (
    <div className={styles['place']}>
      <div className={styles['connection']}>
        <ConnectionWord state={cluster.state} />
        {cluster.context !== '' && (
          <span className={styles['where']}>{connectionWords.place(cluster.context, cluster.namespace)}</span>
        )}
      </div>
      {address === undefined ? (
        <span className={styles['noAddress']}>{connectionWords.noAddress}</span>
      ) : (
        <CopyButton text={address} label={connectionWords.copyAddress(address)}>
          {address}
        </CopyButton>
      )}
      <WindowControls />
    </div>
  )
}

function ConnectionWord({ state }: { readonly state: AgentSnapshot['cluster']['state'] }) {
  const gone = useWindow(({ connection }) => connection.state === 'gone')
  return (
    <span role="status" className={styles['state']}>
      <LinkGlyph link={gone ? 'broken' : glyphs[state]} />
      {gone ? connectionWords.gone : clusterWords[state]}
    </span>
  )
}

const glyphs = {
  live: 'live',
  connecting: 'busy',
  stale: 'stale',
  denied: 'broken',
  unauthorized: 'broken',
  absent: 'broken',
  offline: 'broken',
} as const

/** Controls of the window under the icon, which has no title bar; a page in a browser has none. */
function WindowControls() {
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
  const press = async (asked: Promise<BridgeReply<unknown>>) => {
    const reply = await asked
    setProblem(reply.ok ? undefined : reply.failure.message)
  }
  if (!isUnderIcon) return null
  const at = view === 'services' && service !== undefined ? { service } : { view }
  return (
    <>
      <div role="group" aria-label={windowWords.title} className={styles['controls']}>
        <Button look="plain" label={sharedWords.ownWindow} onPress={() => void press(app.tearOff(at))}>
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

/** Why the window may be out of date, above everything else. */
export function Alerts() {
  const cluster = useSnapshot((snapshot) => snapshot.cluster)
  const gone = useWindow(({ connection }) => connection.state === 'gone')
  if (!gone && cluster.state === 'live') return null
  return (
    <aside className={styles['alerts']} aria-label={connectionWords.title}>
      <AgentGone />
      {cluster.state !== 'live' && <ClusterAway cluster={cluster} />}
    </aside>
  )
}

function AgentGone() {
  const connection = useWindow((state) => state.connection)
  const reconnect = useWindow((state) => state.reconnect)
  if (connection.state !== 'gone') return null
  return (
    <Banner tone="bad" actions={<Button onPress={reconnect}>{connectionWords.tryNow}</Button>}>
      <Said text={connection.message} />
      <p>
        <LocalAge since={connection.since} words={(age) => connectionWords.seenAt(connection.since, age)} />{' '}
        <LocalUntil at={connection.retryAt} words={connectionWords.nextTry} />
      </p>
    </Banner>
  )
}

/** macOS asks a person only once whether the app may reach the local network. */
export function OpenLocalNetwork() {
  const app = useApp()
  if (app === undefined) return null
  return <Button onPress={() => void app.openPane('localNetwork')}>{connectionWords.openLocalNetwork}</Button>
}

function ClusterAway({ cluster: { state, message, cause, since, retryAt } }: { readonly cluster: ClusterView }) {
  return (
    <Banner
      tone={state === 'connecting' ? 'note' : 'warn'}
      actions={cause === 'localNetwork' ? <OpenLocalNetwork /> : undefined}
    >
      <Said text={message} />
      <p>
        <Age since={since} words={connectionWords.lasts} />{' '}
        {retryAt !== undefined && <Until at={retryAt} words={connectionWords.nextTry} />}
      </p>
    </Banner>
  )
}
