import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { clusterWords } from '../../contract/words.ts'
import { CopyButton } from '../components/copy-button.tsx'
import { LinkGlyph } from '../components/glyph.tsx'
import { Spoken } from '../components/spoken.tsx'
import { useSnapshot, useWindow } from '../store.ts'
import { connectionWords } from '../words/connection.ts'
import styles from './header.module.css'
import { MemoryBar } from './memory-bar.tsx'
import { PowerStrip } from './power-strip.tsx'
import { WindowControls } from './window-controls.tsx'

/** Where this machine stands, its memory and its power, above every view. */
export function Header() {
  return (
    <header className={styles['header']}>
      <h1>
        <Spoken>{connectionWords.app}</Spoken>
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
