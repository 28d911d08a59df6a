import type { ClusterView } from '../../contract/cluster.ts'
import { Banner } from '../components/banner.tsx'
import { Button } from '../components/button.tsx'
import { Sentence } from '../components/sentence.tsx'
import { Age, LocalAge, LocalUntil, Until } from '../components/time.tsx'
import { useSnapshot, useWindow } from '../store.ts'
import { connectionWords } from '../words/connection.ts'
import styles from './alerts.module.css'

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
      <p>
        <Sentence text={connection.message} />
      </p>
      <p>
        {connectionWords.seenAt(connection.since)} <LocalAge since={connection.since} /> {connectionWords.ago}{' '}
        {connectionWords.nextTry} <LocalUntil at={connection.retryAt} />.
      </p>
    </Banner>
  )
}

function ClusterAway({ cluster: { state, message, since, retryAt } }: { readonly cluster: ClusterView }) {
  return (
    <Banner tone={state === 'connecting' ? 'note' : 'warn'}>
      <p>
        <Sentence text={message} />
      </p>
      <p>
        {connectionWords.for} <Age since={since} />
        {retryAt !== undefined && (
          <>
            {connectionWords.commaNextTry} <Until at={retryAt} />
          </>
        )}
        .
      </p>
    </Banner>
  )
}
