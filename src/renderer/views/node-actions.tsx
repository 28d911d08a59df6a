import { Button } from '../components/button.tsx'
import { useSnapshot, useWindow } from '../store.ts'
import { nodeWords } from '../words/services.ts'
import { Answer } from './answer.tsx'
import styles from './node-actions.module.css'

/** What concerns the whole machine. */
export function NodeActions() {
  const paused = useSnapshot(({ host }) => host.paused)
  const ask = useWindow((state) => state.ask)
  const resyncing = useWindow(({ requests }) => requests['resync']?.state === 'pending')
  const pausing = useWindow(({ requests }) => requests['node']?.state === 'pending')
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  return (
    <section className={styles['node']} aria-label={nodeWords.title}>
      <div className={styles['actions']}>
        {!paused && (
          <Button disabled={disabled} pending={pausing} onPress={() => void ask('node', { name: 'pauseNode' })}>
            {nodeWords.pause}
          </Button>
        )}
        <Button disabled={disabled} pending={resyncing} onPress={() => void ask('resync', { name: 'resync' })}>
          {nodeWords.resync}
        </Button>
      </div>
      <Answer about="resync" />
    </section>
  )
}
