"""SQL text in, bound operator trees and statements out."""
